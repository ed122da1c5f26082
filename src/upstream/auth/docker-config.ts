import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { z } from 'zod';
import { canonicalRegistry } from '../../oci/reference.ts';
import type { CredentialSource, Credentials } from './credentials.ts';

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
 * Returns the credentials in a docker `config.json`: `auths`, `credHelpers` and `credsStore`. Matches a registry by
 * its exact host, and accepts the spellings that docker itself writes for Docker Hub. Throws when the text is not such
 * a file. Source: docker CLI reference, Configuration files.
 */
export function dockerConfigCredentials(text: string): CredentialSource {
  const config = configSchema.parse(JSON.parse(text));
  const auths = new Map(
    Object.entries(config.auths).map(([key, entry]) => [registryOfKey(key), entry]),
  );
  const helpers = new Map(
    Object.entries(config.credHelpers).map(([key, name]) => [registryOfKey(key), name]),
  );
  return async registry => {
    const host = canonicalRegistry(registry);
    const helper = helpers.get(host);
    if (helper) return askHelper(helper, host);
    const entry = auths.get(host);
    const own = entry && credentialsOf(entry);
    if (own) return own;
    return config.credsStore ? askHelper(config.credsStore, host) : undefined;
  };
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

const answerSchema = z.object({ Username: z.string(), Secret: z.string() });

async function askHelper(name: string, host: string): Promise<Credentials | undefined> {
  if (!/^[A-Za-z0-9._-]+$/.test(name)) return undefined;
  const server = host === 'docker.io' ? 'https://index.docker.io/v1/' : host;
  const call = run(`docker-credential-${name}`, ['get'], { timeout: helperTimeoutMs });
  call.child.stdin?.end(server);
  try {
    const { Username, Secret } = answerSchema.parse(JSON.parse((await call).stdout));
    // A helper returns this user name when the secret is an identity token.
    return Username === '<token>'
      ? { kind: 'identity-token', token: Secret }
      : { kind: 'password', username: Username, password: Secret };
  } catch {
    // In the helper protocol, "credentials not found" is a failure.
    return undefined;
  }
}
