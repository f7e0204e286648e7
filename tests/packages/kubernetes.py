"""The Kubernetes manifests: decoded by the types of Kubernetes itself, and their Pods started with a
name service as a cluster has it: three servers find each other, and one comes back elsewhere."""

import json
import re

from common import ROOT, Network, Suite, container, run, until
from image_root import unpacked_image

NEEDS = ("dnsmasq", "go", "ip", "unshare")
# Of manifests/go.mod.
GO_MIN = (1, 24)
# Most of the time is the compiler's, on the types of all versions of the API.
QUICKLY = ("-gcflags=all=-N -l", "-ldflags=-s -w")
MANIFESTS = ROOT / "server/package/kubernetes/zoolet.yaml"


def main():
    with Suite("kubernetes", NEEDS) as suite:
        objects = decoded(suite)
        pods_start(suite, objects)


def decoded(suite):
    """Returns the objects by kind and name. The program refuses unknown fields and wrong types."""
    found = run("go", "env", "GOVERSION")
    if tuple(int(part) for part in re.findall("[0-9]+", found)[:2]) < GO_MIN:
        suite.not_run(f"needs Go {GO_MIN[0]}.{GO_MIN[1]}, found {found.strip()}")
        raise SystemExit(0)
    program = suite.directory / "manifests"
    run("go", "build", *QUICKLY, "-o", program, ".", cwd=ROOT / "tests/packages/manifests", timeout=600)
    lines = run(program, MANIFESTS).splitlines()
    objects = [json.loads(line) for line in lines]
    kinds = sorted(one["kind"] for one in objects)
    expected = ["ConfigMap", "PodDisruptionBudget", "Service", "Service", "StatefulSet"]
    suite.same(kinds, expected, "the kinds of objects")
    wrong = suite.directory / "wrong.yaml"
    for good, bad in (("replicas: 3", "replicas: three"), ("maxUnavailable", "maxUnavailabel")):
        wrong.write_text(MANIFESTS.read_text().replace(good, bad))
        run(program, wrong, fails=True)
        suite.checks += 1
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


class Ensemble:
    """Does what the StatefulSet's controller and a kubelet do."""

    def __init__(self, suite, objects):
        self.suite, self.objects = suite, objects
        self.set = objects["StatefulSet", "zk"]
        self.spec = self.set["spec"]["template"]["spec"]
        self.network = Network(suite)
        self.root = unpacked_image(suite)
        self.addresses, self.pods = {}, {}
        (self.root / "etc/resolv.conf").write_text(
            f"search {Network.DOMAIN} svc.cluster.local cluster.local\n"
            f"nameserver {Network.PREFIX}.1\noptions ndots:5\n"
        )
        self.network.serve_names()
        self.config = suite.directory / "config"
        self.config.mkdir()
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        data = objects["ConfigMap", volumes["config"]["configMap"]["name"]]["data"]
        for name, text in data.items():
            (self.config / name).write_text(text)

    def start(self, index, number):
        """Starts the Pod with this index, at an address that ends with the number."""
        name = f"{self.set['metadata']['name']}-{index}"
        only = self.spec["containers"][0]
        labels = {"metadata.labels['apps.kubernetes.io/pod-index']": str(index)}
        values = {
            one["name"]: labels[one["valueFrom"]["fieldRef"]["fieldPath"]] for one in only["env"]
        }
        words = only["args"]
        for variable, value in values.items():
            words = [word.replace(f"$({variable})", value) for word in words]
        user = self.spec["securityContext"]["runAsUser"]
        claim = self.suite.directory / f"data-{name}"
        claim.mkdir(exist_ok=True)
        run("chown", f"0:{self.spec['securityContext']['fsGroup']}", claim)
        claim.chmod(0o2775)
        sources = {"data": claim, "config": self.config}
        mounts = [(sources[one["name"]], one["mountPath"]) for one in only["volumeMounts"]]
        space, address = self.network.join(f"{name}-{number}", number)
        command = ["/usr/bin/zoolet", *words]
        log = f"{name}-{number}"
        self.pods[index] = container(
            self.suite, log, space, self.root, user, command, mounts, values
        )
        service = self.set["spec"]["serviceName"]
        self.addresses[f"{name}.{service}"] = address
        return address

    def publish(self):
        self.network.name(self.addresses)

    def probe(self, probe, address):
        """Does an HTTP probe, and returns its code."""
        only = self.spec["containers"][0]
        get = only[probe]["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in only["ports"]}
        url = f"http://{address}:{ports[get['port']]}{get['path']}"
        script = f"""import urllib.request, urllib.error
try: print(urllib.request.urlopen("{url}", timeout=2).status)
except urllib.error.HTTPError as error: print(error.code)"""
        return int(self.network.run("python3", "-c", script))

    def ctl(self, address, *words, **options):
        port = self.objects["Service", "zk-cs"]["spec"]["ports"][0]["port"]
        program = self.root / "usr/bin/zooletctl"
        return self.network.run(program, "--servers", f"{address}:{port}", *words, **options)


def pods_start(suite, objects):
    ensemble = Ensemble(suite, objects)
    replicas = ensemble.set["spec"]["replicas"]
    addresses = [ensemble.start(index, 10 + index) for index in range(replicas)]

    # The name service learns of a Pod later than the Pod starts.
    first = addresses[0]
    until("a server is alive", lambda: ensemble.probe("livenessProbe", first) == 200)
    suite.same(ensemble.probe("readinessProbe", first), 503, "ready without the others")
    ensemble.publish()
    for address in addresses:
        until(f"{address} is ready", lambda: ensemble.probe("readinessProbe", address) == 200)
        suite.checks += 1
    ensemble.ctl(first, "create", "/config", "on")
    config = ensemble.ctl(first, "config")
    for index in range(replicas):
        suite.check(f"server.{index}=zk-{index}.zk-hs:2888:3888:participant" in config, config)

    # Moved to another machine: the same name and volume, another address.
    suite.same(ensemble.pods[0].stop(), 0, "the exit code of a Pod that was stopped")
    until("the rest serves", lambda: ensemble.ctl(addresses[1], "set", "/config", "moved") or True)
    moved = ensemble.start(0, 20)
    ensemble.publish()
    until("the moved server is ready", lambda: ensemble.probe("readinessProbe", moved) == 200)
    ensemble.ctl(moved, "sync", "/config")
    suite.same(ensemble.ctl(moved, "get", "/config"), "moved\n", "what the moved server has")

    # All machines lose power, and come back at other addresses.
    for pod in ensemble.pods.values():
        pod.kill()
    addresses = [ensemble.start(index, 30 + index) for index in range(replicas)]
    ensemble.publish()
    for address in addresses:
        until(f"{address} is ready", lambda: ensemble.probe("readinessProbe", address) == 200)
        suite.same(ensemble.ctl(address, "get", "/config"), "moved\n", "after the loss of power")


main()
