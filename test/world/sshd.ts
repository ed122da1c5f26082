import { mkdir, writeFile } from 'node:fs/promises';
import { startDaemon, waitForLine } from './daemon.ts';
import { freePort } from './free-port.ts';
import { makeSshKey } from './ssh-keys.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

/** A running SSH server, which runs one command for everyone who logs in. */
export interface Sshd extends AsyncDisposable {
  readonly port: number;
  /** Its own public key, `ssh-ed25519 AAAA...`. */
  readonly hostKey: string;
  /** What it has logged so far. */
  output(): string;
  stop(): Promise<void>;
}

const attempts = 5;

/**
 * Starts sshd on a free port of 127.0.0.1.
 *
 * @param keys public keys that may log in as root, by their names
 * @param commandOf returns what is run for who has a key. Default: a welcome with the name of the key
 */
export async function startSshd(
  keys: Readonly<Record<string, string>>,
  commandOf: (name: string) => string = name => `echo welcome ${name}`,
): Promise<Sshd> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startOn(await freePort(), keys, commandOf);
    } catch (error) {
      // Somebody else was faster to take the port.
      if (attempt === attempts || !String(error).includes('Address already in use')) throw error;
    }
  }
}

// In its own mount namespace: the machine's accounts and the folder that a service makes do not matter.
const script = [
  'mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd',
  'mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/shadow" /etc/shadow',
  'exec "$@"',
].join(' && ');

async function startOn(
  port: number,
  keys: Readonly<Record<string, string>>,
  commandOf: (name: string) => string,
): Promise<Sshd> {
  const directory = await makeTempDir('sshd');
  const { path, publicKey: hostKey } = makeSshKey(directory.join('host'), ['-t', 'ed25519']);
  const lines = Object.entries(keys).map(
    ([name, key]) => `restrict,command="${commandOf(name)}" ${key}`,
  );
  await writeFile(directory.join('authorized'), `${lines.join('\n')}\n`);
  await writeFile(
    directory.join('passwd'),
    `root:x:0:0:root:${directory.path}:/bin/sh\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n`,
  );
  await writeFile(directory.join('shadow'), 'root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n');
  await mkdir(directory.join('home'));
  const settings = [
    `Port ${port}`,
    'ListenAddress 127.0.0.1',
    `HostKey ${path}`,
    `AuthorizedKeysFile ${directory.join('authorized')}`,
    'PermitRootLogin prohibit-password',
    'PasswordAuthentication no',
    'StrictModes no',
    'UsePAM no',
    'PidFile none',
    'LogLevel VERBOSE',
  ];
  await writeFile(directory.join('config'), `${settings.join('\n')}\n`);
  const sshd = [requireCommand('sshd'), '-D', '-e', '-f', directory.join('config')];
  const daemon = startDaemon('unshare', [
    ...['--mount', '--propagation', 'private', 'sh', '-c', script, directory.path, ...sshd],
  ]);
  const stop = async () => {
    await daemon.stop();
    await directory.remove();
  };
  try {
    await waitForLine(daemon, /Server listening on/);
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, hostKey, output: daemon.output, stop, [Symbol.asyncDispose]: stop };
}
