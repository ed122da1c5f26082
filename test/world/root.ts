import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, rm, writeFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { claimControlGroup } from './control-group.ts';
import { type Daemon, firstChild, startDaemon, waitForLine, watch } from './daemon.ts';
import { type ProgramOptions, type Result, runProgram, startProgram } from './program.ts';
import { diskFolder, makeTempDir } from './temp-dir.ts';
import { requireCommand, requireTools, rootDirectory, type Suite } from './tools.ts';

export interface ExecOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly timeoutMs?: number;
}

/**
 * A private root that was entered: its own mounts, processes and files, on the machine's network. Programs see a fresh
 * copy of the suite's root; their writes go to `directory` and are discarded.
 */
export interface Root extends AsyncDisposable {
  readonly suite: Suite;
  /** On the machine; holds `run` (the root's /run), `tmp` and `var`. */
  readonly directory: string;
  /** The control group under which its containers belong, such as `/sluice-forky-a1b2c3`. */
  readonly controlGroup: string;
  /** Runs a program of the machine itself, but in the network of the root. */
  execOnNetwork(command: readonly string[], options?: ExecOptions): Promise<Result>;
  spawnOnNetwork(command: readonly string[], options?: ExecOptions): Daemon;
  exec(command: readonly string[], options?: ExecOptions): Promise<Result>;
  spawn(command: readonly string[], options?: ExecOptions): Daemon;
  /** The number of its first process on the machine, which names its network to `ip`. */
  firstProcess(): number;
  /** Kills all its processes at once, and with them its mounts and its network. Its files stay, as on a disk. */
  powerOff(): Promise<void>;
  /** Enters it again, with the files that it had, except for those in /run. */
  powerOn(): Promise<void>;
  close(): Promise<void>;
}

// Directories that need their own file system: overlayfs cannot lie on overlayfs.
const plainDirectories = [
  'run',
  'tmp',
  'var/lib/docker',
  'var/lib/containerd',
  'var/lib/containers',
];

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

const enterScript = `
set -e
scratch=$1 lower=$2
root=$scratch/root
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
shift 2
for directory; do mount --bind "$scratch/$directory" "$root/$directory"; done
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mkdir "$root/run/host"
cd "$root"
pivot_root . run/host
exec chroot . /bin/sh -c '
  umount -l /run/host && rmdir /run/host
  exec 3<&0
  cat <&3 >/dev/null &
  echo entered
  wait $!'
`;

export interface RootOptions {
  /** Files that are put into it first, by absolute path. */
  readonly files?: Readonly<Record<string, string>> | undefined;
  /** Gives it its own network, which contains only the loopback at first. */
  readonly ownNetwork?: boolean | undefined;
  /** Puts its files on a disk. Default: into memory, where there is room. */
  readonly onDisk?: boolean | undefined;
}

/** Enters the private root of a suite. */
export async function openRoot(
  suite: Suite,
  { files = {}, ownNetwork = false, onDisk = false }: RootOptions = {},
): Promise<Root> {
  requireTools([suite]);
  const scratch = await makeTempDir(suite, onDisk ? diskFolder() : undefined);
  const controlGroup = await claimControlGroup(basename(scratch.path));
  for (const name of ['work', 'root', 'upper/etc']) {
    await mkdir(scratch.join(name), { recursive: true });
  }
  for (const name of plainDirectories) {
    await mkdir(scratch.join(name), { recursive: true });
    await mkdir(scratch.join('upper', name), { recursive: true });
  }
  await chmod(scratch.join('tmp'), 0o1777);
  for (const name of ['hosts', 'resolv.conf']) {
    if (existsSync(`/etc/${name}`)) await copyFile(`/etc/${name}`, scratch.join('upper/etc', name));
  }
  for (const [path, content] of Object.entries(files)) {
    const place = scratch.join('upper', path);
    await mkdir(dirname(place), { recursive: true });
    await writeFile(place, content);
  }
  const end = async ({ authenticator }: Entered) => {
    authenticator.process.stdin?.end();
    await authenticator.ended;
    await controlGroup.remove();
  };
  const enterOrEnd = async () => {
    const entered = enterRoot(scratch.path, rootDirectory(suite), ownNetwork);
    try {
      await waitForLine(entered, /^entered$/);
      const target = await firstChild(entered.process);
      if (ownNetwork) {
        await exec(['--target', String(target), '--net', 'ip', 'link', 'set', 'lo', 'up']);
      }
      return { authenticator: entered, target };
    } catch (error) {
      await end({ authenticator: entered, target: 0 });
      throw error;
    }
  };
  let entered: Entered;
  try {
    entered = await enterOrEnd();
  } catch (error) {
    await scratch.remove();
    throw error;
  }
  const network = ownNetwork ? ['--net'] : [];
  const enterNetwork = () => ['--target', String(entered.target), ...network];
  const enter = () => [...enterNetwork(), '--mount', '--pid', '--root', '--wd'];
  const close = async () => {
    await end(entered);
    await scratch.remove();
  };
  return {
    suite,
    directory: scratch.path,
    controlGroup: controlGroup.name,
    execOnNetwork: (command, options) => exec([...enterNetwork(), ...command], options),
    spawnOnNetwork: (command, options = {}) =>
      watch(start([...enterNetwork(), ...command], options)),
    exec: (command, options) => exec([...enter(), ...command], options),
    spawn: (command, options = {}) => watch(start([...enter(), ...command], options)),
    firstProcess: () => entered.target,
    async powerOff() {
      process.kill(entered.target, 'SIGKILL');
      await end(entered);
    },
    async powerOn() {
      await rm(scratch.join('run'), { recursive: true });
      await mkdir(scratch.join('run'));
      entered = await enterOrEnd();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface Entered {
  readonly authenticator: Daemon;
  /** The first process of the root. */
  readonly target: number;
}

/**
 * Starts the first process of a root's namespaces. It reads its input to the end: it ends when this process does, and the
 * kernel then kills every other process and drops every mount of the namespace.
 */
function enterRoot(scratch: string, lower: string, ownNetwork: boolean): Daemon {
  return startDaemon(
    'unshare',
    [
      ...['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'],
      ...(ownNetwork ? ['--net'] : []),
      ...['sh', '-c', enterScript, 'sh', scratch, lower, ...plainDirectories],
    ],
    { stdin: 'pipe' },
  );
}

function start(args: readonly string[], options: ExecOptions): ChildProcess {
  return startProgram([requireCommand('nsenter'), ...args], withEnvironment(options));
}

function exec(args: readonly string[], options: ExecOptions = {}): Promise<Result> {
  return runProgram([requireCommand('nsenter'), ...args], withEnvironment(options));
}

function withEnvironment(options: ExecOptions): ProgramOptions {
  const env = { PATH: searchPath, HOME: '/root', LC_ALL: 'C.UTF-8', ...options.env };
  return { ...options, env };
}
