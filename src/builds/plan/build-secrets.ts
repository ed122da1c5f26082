import { readSshKey, SshKeyError } from '../../buildkit/index.ts';
import { refuse, shown } from '../recipe/text/refuse.ts';

/** What steps of a build may use without it being stored anywhere. */
export interface SubmittedSecrets {
  /** Base64 values by id, for `RUN --mount=type=secret`. */
  readonly secrets?: Readonly<Record<string, string>> | undefined;
  /** Private keys by the id of their SSH agent, base64, for `RUN --mount=type=ssh`. */
  readonly ssh?: Readonly<Record<string, readonly string[]>> | undefined;
}

/** The ids of the secrets and SSH agents that came with the request, sorted. */
export interface SecretIds {
  readonly secretIds?: readonly string[];
  readonly sshIds?: readonly string[];
}

// A server allows a client six keys by default. Each key takes about a millisecond to read.
const mostKeys = 20;
// All secrets of a build, and each of their lines, are looked for in every line of its log.
const mostBytes = 48 * 1024;

/**
 * Checks the secrets and keys of a request. No key of a build contains their values, so two builds with the same key
 * may have different ones. Anyone who may push to the repository can replace its images anyway. Throws a `Fault` (400)
 * that names the field.
 */
export function readSecretIds(
  { secrets = {}, ssh = {} }: SubmittedSecrets,
  subject: { readonly isDockerfile: boolean; readonly hasRepository: boolean },
): SecretIds {
  const secretIds = idsIn('secrets', secrets, subject);
  const sshIds = idsIn('ssh', ssh, subject);
  const bytes = Object.values(secrets).reduce(
    (sum, base64) => sum + Buffer.byteLength(base64, 'base64'),
    0,
  );
  if (bytes > mostBytes) {
    refuse(
      `'secrets' has ${bytes} bytes in all, at most ${mostBytes} (48 KiB) are allowed: fetch larger files in the step, with a short secret`,
    );
  }
  checkKeys(ssh);
  return {
    ...(secretIds.length > 0 ? { secretIds } : {}),
    ...(sshIds.length > 0 ? { sshIds } : {}),
  };
}

function idsIn(
  field: string,
  values: Readonly<Record<string, unknown>>,
  subject: { readonly isDockerfile: boolean; readonly hasRepository: boolean },
): string[] {
  const ids = Object.keys(values).sort();
  if (ids.length === 0) return [];
  if (!subject.isDockerfile) refuse(`'${field}' requires a Dockerfile in 'containerFile'`);
  if (!subject.hasRepository) {
    refuse(
      `'${field}' requires 'buildRepository', a repository of your own: other callers can use the images in the default one`,
    );
  }
  const wrong = ids.find(id => !/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/.test(id));
  if (wrong !== undefined) {
    refuse(`'${field}': an id has letters, digits, '_', '.' and '-' only, not ${shown(wrong)}`);
  }
  return ids;
}

function checkKeys(ssh: Readonly<Record<string, readonly string[]>>): void {
  const count = Object.values(ssh).flat().length;
  if (count > mostKeys) refuse(`'ssh' has ${count} keys, at most ${mostKeys} are allowed`);
  for (const [id, keys] of Object.entries(ssh)) {
    if (keys.length === 0) refuse(`'ssh.${id}' has no key: send a private key, base64`);
    for (const [position, base64] of keys.entries()) checkKey(`'ssh.${id}[${position}]'`, base64);
  }
}

function checkKey(field: string, base64: string): void {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.toString('base64') !== base64) {
    refuse(`${field} is not base64: encode the file of the private key (RFC 4648, no line breaks)`);
  }
  try {
    readSshKey(bytes);
  } catch (error) {
    if (error instanceof SshKeyError) refuse(`${field} ${error.message}`);
    throw error;
  }
}
