import { globSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Certificates } from './certificates.ts';
import { claimControlGroup } from './control-group.ts';
import { type Daemon, firstChild, startDaemon, waitForLine } from './daemon.ts';
import { freePort } from './free-port.ts';
import { diskFolder, makeTempDir, quickFolder } from './temp-dir.ts';
import { buildkitDirectory, requireCommand } from './tools.ts';

export interface BuildkitdOptions {
  /** Listens on TCP too; clients require a certificate of the same authority. */
  readonly tls?: Certificates;
  /** Where it listens with `tls`. Default: a free port of 127.0.0.1. */
  readonly tcpAddress?: string;
  /** Allowed entitlements of builds. Default: `network.host`. */
  readonly entitlements?: readonly string[];
  /** True for a builder that other programs use, too: Sluice does not empty it. Default: false. */
  readonly isShared?: boolean;
  /** File of an authority that its programs trust beside the usual ones: git reads no other setting. */
  readonly authority?: string;
  /** More of buildkitd.toml. */
  readonly config?: string;
  /** Base URL of a collector that gets its spans. */
  readonly collector?: string;
  /** Memory limit of all its containers together. */
  readonly memoryBytes?: number;
  /** Puts its storage on a disk of so many bytes. */
  readonly diskBytes?: number;
}

/** A buildkitd with its own storage, whose containers use the machine's network. */
export interface Buildkitd extends AsyncDisposable {
  /** `unix:///...` */
  readonly address: string;
  /** `tcp://127.0.0.1:<port>`, with `tls` only. */
  readonly tcpAddress: string;
  readonly directory: string;
  /** The daemon's process, whose children are the containers. */
  readonly pid: number | undefined;
  /** Its output so far. */
  output(): string;
  /** Numbers of all processes that run in its containers. */
  containerProcesses(): Promise<number[]>;
  /** Sends a signal to the daemon itself. */
  signal(name: NodeJS.Signals): void;
  /** Kills it at once, with all that runs in its containers. */
  kill(): Promise<void>;
  /** Starts it again after it has ended, at the same address and with the same storage. */
  start(): Promise<void>;
  /** Settles when it has ended. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

// It waits without limit for running builds, and those of a failed test are not worth it.
const patienceMs = 3_000;

/** Starts buildkitd as root in a process and mount namespace that takes along all that it starts. */
export async function startBuildkitd(options: BuildkitdOptions = {}): Promise<Buildkitd> {
  const { tls, entitlements = ['network.host'], config = '', isShared = false } = options;
  const labels = isShared ? '' : '[worker.oci.labels]\n"sluice.wipe" = "prune"\n';
  const buildkitd = requireCommand(join(buildkitDirectory(), 'buildkitd'));
  requireCommand('runc');
  const folder = options.memoryBytes === undefined ? await quickFolder() : diskFolder();
  const directory = await makeTempDir('buildkitd', folder);
  const controlGroup = await claimControlGroup(basename(directory.path));
  if (options.memoryBytes !== undefined) await controlGroup.limitMemory(options.memoryBytes);
  const configFile = directory.join('buildkitd.toml');
  await writeFile(
    configFile,
    `[worker.oci]\ndefaultCgroupParent = "${controlGroup.name}"\n\n${config}\n${labels}`,
  );
  const socket = directory.join('buildkitd.sock');
  const tcpAddress = tls ? (options.tcpAddress ?? `tcp://127.0.0.1:${await freePort()}`) : '';
  let daemon: Daemon;
  let pid: number | undefined;
  // The kernel ends every process of the namespace and drops its mounts when its first process ends.
  const launch = async (): Promise<void> => {
    pid = undefined;
    daemon = startDaemon(
      'unshare',
      [
        ...[
          '--mount',
          '--propagation',
          'private',
          '--pid',
          '--fork',
          '--kill-child',
          '--mount-proc',
        ],
        ...ownDisk(directory.join('root'), options.diskBytes),
        ...trusting(options.authority, directory.join('authorities.pem')),
        ...[buildkitd, '--config', configFile, '--root', directory.join('root')],
        ...['--addr', `unix://${socket}`, '--otel-socket-path', directory.join('otel.sock')],
        ...[
          '--oci-worker-net=host',
          '--oci-worker-snapshotter=overlayfs',
          '--containerd-worker=false',
        ],
        ...entitlements.flatMap(name => ['--allow-insecure-entitlement', name]),
        ...(tls ? ['--addr', tcpAddress, '--tlscert', tls.certificate] : []),
        ...(tls ? ['--tlskey', tls.key, '--tlscacert', tls.authority] : []),
      ],
      {
        env:
          options.collector === undefined
            ? {}
            : {
                OTEL_EXPORTER_OTLP_ENDPOINT: options.collector,
                OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
                OTEL_BSP_SCHEDULE_DELAY: '200',
              },
      },
    );
    await waitForLine(daemon, /running server on .*buildkitd\.sock/);
    pid = await firstChild(daemon.process);
  };
  const hasEnded = () => daemon.process.exitCode !== null || daemon.process.signalCode !== null;
  const signal = (name: NodeJS.Signals) => {
    if (pid !== undefined && !hasEnded()) process.kill(pid, name);
  };
  const stop = async () => {
    signal('SIGCONT');
    signal('SIGTERM');
    await Promise.race([daemon.ended, sleep(patienceMs, undefined, { ref: false })]);
    signal('SIGKILL');
    await daemon.stop();
    await controlGroup.remove();
    await directory.remove();
  };
  try {
    await launch();
    return {
      ...{ address: `unix://${socket}`, tcpAddress, directory: directory.path },
      ...{ signal, start: launch, stop },
      output: () => daemon.output(),
      get pid() {
        return pid;
      },
      get ended() {
        return daemon.ended;
      },
      async kill() {
        signal('SIGKILL');
        await daemon.ended;
      },
      containerProcesses: () => processesIn(controlGroup.name),
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The beginning of a command that runs the rest with a small file system as the directory. */
function ownDisk(root: string, bytes: number | undefined): string[] {
  const script = `mkdir "$0" && mount -t tmpfs -o size=${bytes} tmpfs "$0" && exec "$@"`;
  return bytes === undefined ? [] : ['sh', '-c', script, root];
}

const authorities = '/etc/ssl/certs/ca-certificates.crt';

/** The beginning of a command that runs the rest with another authority among those of the system. */
function trusting(authority: string | undefined, file: string): string[] {
  const script = `cat ${authorities} "$1" > "$0" && mount --bind "$0" ${authorities} && shift && exec "$@"`;
  return authority === undefined ? [] : ['sh', '-c', script, file, authority];
}

/** What runs below a control group of any hierarchy; a group that is being removed is empty. */
async function processesIn(controlGroup: string): Promise<number[]> {
  const files = globSync(`/sys/fs/cgroup/{,*}${controlGroup}/**/cgroup.procs`);
  const texts = await Promise.all(files.map(file => readFile(file, 'utf8').catch(() => '')));
  return [...new Set(texts.flatMap(text => text.split('\n').filter(Boolean).map(Number)))];
}
