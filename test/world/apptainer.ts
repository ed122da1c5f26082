import { chmod, chown, mkdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Result, runProgram } from './program.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireApptainer, requireCommand } from './tools.ts';

/** Who runs Apptainer: root, an ordinary user, or root on an emulated arm64 machine. */
export type ApptainerUser = 'root' | 'ordinary' | 'arm64';

export interface ApptainerOptions {
  /** Default: `root`. */
  readonly user?: ApptainerUser;
  /** In addition to the few variables that every user has. */
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly timeoutMs?: number;
  /** Default: the user's home. */
  readonly cwd?: string;
}

/** Real Apptainer with its own caches, settings and homes. */
export interface Apptainer extends AsyncDisposable {
  /** A path below its directory, which every user can read. */
  join(...parts: string[]): string;
  run(args: readonly string[], options?: ApptainerOptions): Promise<Result>;
  /** Runs another program instead of Apptainer. */
  runProgram(command: readonly string[], options?: ApptainerOptions): Promise<Result>;
  remove(): Promise<void>;
}

export type ApptainerTool = 'apptainer' | 'siftool' | 'mksquashfs' | 'unsquashfs' | 'qemu-aarch64';

const ordinary = 1000;

/** The path of a program that came with Apptainer; throws when it is not installed. */
export function apptainerTool(name: ApptainerTool): string {
  return join(requireApptainer(), 'usr/bin', name);
}

/** Makes the directories in which Apptainer works; nothing of it runs before `run`. */
export async function openApptainer(): Promise<Apptainer> {
  const tools = requireApptainer();
  for (const name of ['unshare', 'setpriv', 'mount']) requireCommand(name);
  const directory = await makeTempDir('apptainer');
  await chmod(directory.path, 0o755);
  for (const user of ['root', 'ordinary', 'arm64']) {
    for (const name of ['home', 'cache', 'tmp', 'config']) {
      const path = directory.join(user, name);
      await mkdir(path, { recursive: true });
      if (user === 'ordinary') await chown(path, ordinary, ordinary);
    }
  }
  const users = [
    'root:x:0:0::/root',
    `tester:x:${ordinary}:${ordinary}::${directory.join('ordinary/home')}`,
  ];
  await writeFile(directory.join('passwd'), users.map(user => `${user}:/bin/sh\n`).join(''));
  await mkdir(directory.join('devices'));
  const closed = await closedAncestors(tools);
  const ways: Readonly<Record<ApptainerUser, readonly string[]>> = {
    root: [],
    ordinary: [
      ...['unshare', '--mount', '--propagation', 'private', 'sh', '-c', ordinaryScript, 'sh'],
      ...[directory.path, tools, closed, String(ordinary)],
    ],
    arm64: [
      ...['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', emulationScript, 'sh'],
      apptainerTool('qemu-aarch64'),
    ],
  };
  const runAny = (command: readonly string[], options: ApptainerOptions = {}) => {
    const { user = 'root', env, ...rest } = options;
    const own = (name: string) => directory.join(user, name);
    return runProgram([...ways[user], ...command], {
      cwd: own('home'),
      ...rest,
      env: {
        PATH: `${tools}/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
        LC_ALL: 'C.UTF-8',
        HOME: own('home'),
        APPTAINER_CACHEDIR: own('cache'),
        APPTAINER_TMPDIR: own('tmp'),
        APPTAINER_CONFIGDIR: own('config'),
        ...env,
      },
    });
  };
  return {
    join: directory.join,
    run: (args, options) => runAny([apptainerTool('apptainer'), ...args], options),
    runProgram: runAny,
    remove: directory.remove,
    [Symbol.asyncDispose]: directory.remove,
  };
}

/** Returns why this machine cannot run arm64 programs; undefined if it can. */
export async function emulationProblem(): Promise<string | undefined> {
  await using apptainer = await openApptainer();
  const { code, stderr } = await apptainer.runProgram(['true'], { user: 'arm64' });
  return code === 0 ? undefined : `arm64 cannot be emulated here (Linux 6.7 or newer): ${stderr}`;
}

/** The topmost directory on the way to the path that an ordinary user may not enter, or nothing. */
async function closedAncestors(path: string): Promise<string> {
  const parent = dirname(path);
  if (parent === path) return '';
  const above = await closedAncestors(parent);
  if (above !== '') return above;
  const { mode } = await stat(parent);
  return (mode & 0o001) === 0 ? parent : '';
}

// A separate namespace for an ordinary user: with access to the tools, a name, and file systems in user space.
const ordinaryScript = `
set -e
directory=$1 tools=$2 closed=$3 user=$4
shift 4
mount -t tmpfs -o mode=755 tmpfs "$directory/devices"
mkdir "$directory/devices/tools"
mount --bind "$tools" "$directory/devices/tools"
if [ -n "$closed" ]; then
  mount -t tmpfs -o mode=755 tmpfs "$closed"
  mkdir -p "$tools"
  mount --bind "$directory/devices/tools" "$tools"
fi
mknod -m 666 "$directory/devices/fuse" c 10 229
mount --bind "$directory/devices/fuse" /dev/fuse
mount --bind "$directory/passwd" /etc/passwd
# Not exec: once nobody is left in this namespace, Apptainer's starter no longer knows where it lies.
setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
`;

// The kernel keeps interpreters for each user namespace, so those of the machine are not changed. The interpreter is
// opened immediately (F), because a container does not contain it.
const emulationScript = `
set -e
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
magic='\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00'
mask='\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff'
printf %s ":qemu-aarch64:M::$magic:$mask:$1:F" >/proc/sys/fs/binfmt_misc/register
shift
exec "$@"
`;
