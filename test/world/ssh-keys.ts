import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { requireCommand } from './tools.ts';

/** A pair of keys that ssh-keygen has made. */
export interface SshKeyFiles {
  /** Path of the private key; the public one ends with `.pub`. */
  readonly path: string;
  readonly privateKey: string;
  /** `ssh-ed25519 AAAA...`, without a comment. */
  readonly publicKey: string;
}

/** Makes a pair of keys at the path, with the options of ssh-keygen: `['-t', 'rsa']`. */
export function makeSshKey(path: string, options: readonly string[], passphrase = ''): SshKeyFiles {
  const comment = ['-C', 'somebody@somewhere'];
  execFileSync(requireCommand('ssh-keygen'), [
    ...['-q', '-f', path, '-N', passphrase, ...comment, ...options],
  ]);
  const [type, blob] = readFileSync(`${path}.pub`, 'utf8').split(' ');
  return { path, privateKey: readFileSync(path, 'utf8'), publicKey: `${type} ${blob}` };
}
