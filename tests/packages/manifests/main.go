// Decodes Kubernetes manifests with the types of Kubernetes itself, which refuses unknown fields and
// wrong types, and prints each object as one line of JSON.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

func typed(apiVersion, kind string) any {
	switch apiVersion + " " + kind {
	case "v1 ConfigMap":
		return &corev1.ConfigMap{}
	case "v1 Service":
		return &corev1.Service{}
	case "apps/v1 StatefulSet":
		return &appsv1.StatefulSet{}
	case "policy/v1 PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	}
	return nil
}

func run(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for number, document := range bytes.Split(text, []byte("\n---\n")) {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &head); err != nil {
			return fmt.Errorf("%s, object %d: %w", file, number+1, err)
		}
		object := typed(head.APIVersion, head.Kind)
		if object == nil {
			return fmt.Errorf("%s, object %d: unknown kind %s %s", file, number+1, head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			return fmt.Errorf("%s, object %d: %w", file, number+1, err)
		}
		line, err := json.Marshal(object)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return nil
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
