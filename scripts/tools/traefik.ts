import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { traefikDirectory, traefikVersion } from '../../test/world/tools.ts';
import { downloadModule, go } from './go-programs.ts';
import { makeFolder } from './make-folder.ts';

const module = 'github.com/traefik/traefik/v3';
const certificates = 'github.com/go-acme/lego/v5';
const extensions = 'github.com/traefik/traefik/dynamic/ext';
const passwords = 'github.com/abbot/go-http-auth';

export function hasTraefik(): boolean {
  return existsSync(traefikDirectory());
}

/**
 * Compiles Traefik, an ingress controller that takes the annotations of ingress-nginx, from the Go module proxy. It cannot get
 * certificates by changing DNS records: the modules of several of these services are not at every proxy.
 */
export async function buildTraefik(): Promise<void> {
  await makeFolder(
    {
      destination: traefikDirectory(),
      isThere: hasTraefik,
      doing: `Compiling for some minutes: Traefik ${traefikVersion}`,
    },
    async folder => {
      const work = join(folder, 'work');
      await mkdir(work, { recursive: true });
      await writeFile(join(work, 'go.mod'), await ownModule(folder, work));
      const programs = join(folder, 'programs');
      const build = ['build', '-C', work, '-mod=mod', '-trimpath', '-buildvcs=false', '-ldflags'];
      await go(folder, ...build, '-s -w', '-o', `${programs}/`, `${module}/cmd/traefik`);
      return programs;
    },
  );
}

/** The go.mod of a module that requires Traefik, whose own one replaces modules, and folders that Traefik's module lacks. */
async function ownModule(folder: string, work: string): Promise<string> {
  const { GoMod } = await downloadModule(folder, `${module}@v${traefikVersion}`);
  const text = await readFile(GoMod, 'utf8');
  const [, goVersion = ''] = /^go (\S+)$/m.exec(text) ?? [];
  const [, router = ''] = /^\s(github\.com\/gorilla\/mux => .*)$/m.exec(text) ?? [];
  const [, version = ''] = /^\sgithub\.com\/go-acme\/lego\/v5 (\S+)$/m.exec(text) ?? [];
  const { Dir: source } = await downloadModule(folder, `${certificates}@${version}`);
  await cp(source, join(work, 'lego'), { recursive: true });
  await writeFile(join(work, 'lego/providers/dns/zz_gen_dns_providers.go'), noProviders);
  for (const [name, path, source] of [
    ['ext', extensions, noExtensions],
    // Traefik has a fork, which is not at every proxy. No ingress of the tests asks for a password.
    ['passwords', passwords, noPasswords],
  ] as const) {
    await mkdir(join(work, name));
    await writeFile(join(work, name, 'go.mod'), `module ${path}\ngo ${goVersion}\n`);
    await writeFile(join(work, name, `${name}.go`), source);
  }
  return [
    ...['module ingress', `go ${goVersion}`, `require ${module} v${traefikVersion}`],
    ...[`replace ${router}`, `replace ${certificates} => ./lego`],
    `replace ${passwords} => ./passwords`,
    ...[`replace ${extensions} => ./ext`, ''],
  ].join('\n');
}

const noProviders = `package dns

import (
	"fmt"

	"${certificates}/challenge"
)

// NewDNSChallengeProviderByName knows no service.
func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	return nil, fmt.Errorf("unrecognized DNS provider: %s", name)
}
`;

const noExtensions = `// Package ext has the place for options of other editions.
package ext

// HTTP has no more options.
type HTTP struct{}

// Router has no more options.
type Router struct{}
`;

const noPasswords = `// Package auth refuses every password.
package auth

import "net/http"

// SecretProvider finds the secret of a user.
type SecretProvider func(user, realm string) string

// BasicAuth refuses every password.
type BasicAuth struct {
	Realm   string
	Secrets SecretProvider
}

// RequireAuth refuses a request.
func (*BasicAuth) RequireAuth(writer http.ResponseWriter, _ *http.Request) { refuse(writer) }

// CheckSecret refuses every password.
func CheckSecret(_, _ string) bool { return false }

// DigestAuth refuses every password.
type DigestAuth struct{}

// NewDigestAuthenticator returns what refuses every password.
func NewDigestAuthenticator(_ string, _ SecretProvider) *DigestAuth { return &DigestAuth{} }

// DigestAuthParams finds nothing.
func DigestAuthParams(_ string) map[string]string { return nil }

// CheckAuth finds nobody.
func (*DigestAuth) CheckAuth(_ *http.Request) (string, *string) { return "", nil }

// RequireAuth refuses a request.
func (*DigestAuth) RequireAuth(writer http.ResponseWriter, _ *http.Request) { refuse(writer) }

// RequireAuthStale refuses a request.
func (*DigestAuth) RequireAuthStale(writer http.ResponseWriter, _ *http.Request) { refuse(writer) }

func refuse(writer http.ResponseWriter) {
	http.Error(writer, "no passwords here", http.StatusUnauthorized)
}
`;
