import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { z } from 'zod';
import { canonicalRegistry, withoutApi } from '../../oci/naming.ts';
import type { CredentialSource, Credentials } from '../credentials.ts';

const run = promisify(execFile);
const helperTimeoutMs = 10_000;

const entrySchema = z.object({
  auth: z.string().optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  identitytoken: z.string().optional(),
});
const configSchema = z.object({
  auths: z.record(z.string(), entrySchema).default({}),
  credHelpers: z.record(z.string(), z.string()).default({}),
  credsStore: z.string().optional(),
});

/**
 * Returns the credentials in a docker `config.json` or podman `auth.json`: `auths`, `credHelpers` and `credsStore`.
 * Matches a registry by its exact host, with the longest path that contains the repository, and accepts the spellings
 * that docker itself writes for Docker Hub. Throws when the text is not such a file. Source: docker CLI reference,
 * Configuration files; containers-auth.json(5).
 */
export function dockerConfigCredentials(text: string): CredentialSource {
  const config = configSchema.parse(JSON.parse(text));
  const auths = new Map(
    Object.entries(config.auths).map(([key, entry]) => [placeOfKey(key), entry]),
  );
  const helpers = new Map(
    Object.entries(config.credHelpers).map(([key, name]) => [registryOfKey(key), name]),
  );
  return async (registry, repository) => {
    const host = canonicalRegistry(registry);
    const helper = helpers.get(host);
    if (helper) return askHelper(helper, host);
    for (const place of placesOf(host, repository)) {
      const entry = auths.get(place);
      const own = entry && credentialsOf(entry);
      if (own) return own;
    }
    return config.credsStore ? askHelper(config.credsStore, host) : undefined;
  };
}

/** Returns a repository and everything that contains it, the smallest first: `host/a/b`, `host/a`, `host`. */
function placesOf(host: string, repository: string | undefined): string[] {
  const parts = repository === undefined ? [] : repository.split('/');
  return [...parts.keys(), parts.length]
    .map(count => [host, ...parts.slice(0, count)].join('/'))
    .reverse();
}

/** Returns `host[/path]`. A key with a protocol is docker's, which looks at the host only. */
function placeOfKey(key: string): string {
  if (/^https?:\/\//.test(key)) return registryOfKey(key);
  const [host = '', ...path] = withoutApi(key).split('/');
  const inner = path.filter(part => part !== '');
  return [canonicalRegistry(host), ...(isApi(host, inner) ? [] : inner)].join('/');
}

/** `index.docker.io/v1` is how docker names its own registry. */
function isApi(host: string, path: readonly string[]): boolean {
  return canonicalRegistry(host) === 'docker.io' && /^v[12]$/.test(path.join('/'));
}

/** `https://index.docker.io/v1/` and `registry.example.com` both name a host. */
function registryOfKey(key: string): string {
  return canonicalRegistry(key.replace(/^https?:\/\//, '').replace(/\/.*$/s, ''));
}

function credentialsOf(entry: z.infer<typeof entrySchema>): Credentials | undefined {
  if (entry.identitytoken) return { kind: 'identity-token', token: entry.identitytoken };
  const decoded = entry.auth ? Buffer.from(entry.auth, 'base64').toString('utf8') : '';
  const colon = decoded.indexOf(':');
  const username = entry.username ?? decoded.slice(0, Math.max(colon, 0));
  const password = entry.password ?? decoded.slice(colon + 1);
  return username && password ? { kind: 'password', username, password } : undefined;
}

const responseSchema = z.object({ Username: z.string(), Secret: z.string() });

async function askHelper(name: string, host: string): Promise<Credentials | undefined> {
  if (!/^[A-Za-z0-9._-]+$/.test(name)) return undefined;
  const server = host === 'docker.io' ? 'https://index.docker.io/v1/' : host;
  const call = run(`docker-credential-${name}`, ['get'], { timeout: helperTimeoutMs });
  call.child.stdin?.end(server);
  try {
    const { Username, Secret } = responseSchema.parse(JSON.parse((await call).stdout));
    // A helper returns this user name when the secret is an identity token.
    return Username === '<token>'
      ? { kind: 'identity-token', token: Secret }
      : { kind: 'password', username: Username, password: Secret };
  } catch {
    // In the helper protocol, "credentials not found" is a failure.
    return undefined;
  }
}
