/* Linked into the static programs. glibc resolves names by the modules that /etc/nsswitch.conf
 * names, and a static program loads them from shared libraries that must be of the very glibc that
 * it was linked with. `files` and `dns` are part of the program; with them alone nothing is loaded. */
#include <nss.h>

__attribute__((constructor)) static void use_built_in_modules(void) {
  __nss_configure_lookup("hosts", "files dns");
  __nss_configure_lookup("passwd", "files");
}
