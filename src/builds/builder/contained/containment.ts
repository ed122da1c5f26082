import { lookup } from 'node:dns/promises';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, statfs, symlink, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../../foundation/telemetry/index.ts';
import { buildHost } from '../build-host.ts';
import { findProgram, memoryOfDaemon } from '../own/builder-process.ts';
import {
  buildLimitLines,
  type Limits,
  makeControlGroup,
  makeDaemonGroup,
  nameControlGroup,
} from './control-group.ts';
import { clearLeftovers, noteLeftovers, removeNoted } from './leftovers.ts';
import {
  nameServer,
  networkRules,
  type OpenAddress,
  outerNetwork,
  type Reach,
} from './network-rules.ts';

/** Limits and open addresses of a contained builder. */
export interface ContainmentOptions {
  readonly openHosts: OpenHosts;
  /** Limits of one build. */
  readonly each: Limits;
  /** Limits of all concurrent builds together. */
  readonly all: Limits;
  /** The control group that has these limits, shared with other builders. Default: the builder has its own. */
  readonly together?: string | undefined;
  /** Disk space that one build may write. */
  readonly buildDiskBytes: number;
  /** Maximum disk space of the builder's whole state; less if the disk has less. */
  readonly stateBytes: number;
}

interface Places {
  readonly directory: string;
  readonly folder: string;
  /** Folders in which programs are looked up, in the format of the variable PATH. */
  readonly path: string;
}

/** How to start a builder with its own network, control group and disk. */
export interface Containment {
  /** Root directory of buildkitd. */
  readonly root: string;
  /** Additional lines of buildkitd.toml, below `[worker.oci]`. */
  readonly workerConfig: readonly string[];
  /** The first words of the command that runs buildkitd. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Bytes to leave free on its disk. */
  readonly freeBytes: number;
  /** Maximum bytes to keep there. */
  readonly keptBytes: number;
  /** Writes the network rules; returns true if they have changed. */
  writeRules(): Promise<boolean>;
  /** Removes the remains of a builder that has ended. Logs what it cannot remove; never rejects. */
  clear(): Promise<void>;
}

const scriptPath = (name: string) => join(import.meta.dirname, name);

// Share of the free space that a new state gets: the rest is for the server.
const stateShare = 0.5;
const leastStateBytes = 2 ** 28;
const blockBytes = 2 ** 20;
// Share of its disk that BuildKit keeps at most, and share that it leaves free: room for two builds that write up to
// their limit.
const keptShare = 0.5;
const freeShare = 0.45;
const mostBuildShare = 0.25;
const namesMs = 3000;
// Number of network namespaces that are made before a step needs them.
const spareNetworks = 4;

/**
 * Prepares the start of a contained builder. Throws if the machine cannot contain it.
 *
 * @param folder short-lived, with a short path; the caller removes it
 */
export async function prepareContainment(
  { openHosts, each, all, together, buildDiskBytes, stateBytes }: ContainmentOptions,
  { directory, folder, path, log }: Places & { readonly log: Logger },
): Promise<Containment> {
  await clearLeftovers(directory, log, folder);
  const group = nameControlGroup(together);
  await noteLeftovers(directory, { group, folder });
  const clear = () => removeNoted(directory, group, log);
  try {
    if (together !== undefined) await makeControlGroup(together, all);
    await makeControlGroup(group, together === undefined ? all : undefined);
    const daemonGroup = await makeDaemonGroup(group, each.memoryBytes);
    const plugins = join(directory, 'plugins');
    await rm(plugins, { recursive: true, force: true });
    await mkdir(plugins);
    for (const name of ['sluice', 'loopback'])
      await symlink(scriptPath('cni.sh'), join(plugins, name));
    const network = join(plugins, 'network.conf');
    await writeFile(network, '{"cniVersion":"0.4.0","name":"sluice","type":"sluice"}\n');
    await writeFile(join(folder, 'resolv.conf'), await resolverConfig());
    let rules = '';
    const write = async (reach: Reach) => {
      const next = networkRules(reach);
      if (next === rules) return false;
      await writeFile(join(folder, 'rules.nft'), next);
      rules = next;
      return true;
    };
    const writeRules = async () => write(await findReach(openHosts));
    // Resolving names may take long: each becomes open as soon as it is resolved.
    await write(literalReach(openHosts));
    await Promise.race([writeRules(), sleep(namesMs, undefined, { ref: false })]);
    const bytes = await stateSize(directory, stateBytes);
    const size = (share: number) => Math.floor(bytes * share);
    const root = join(folder, 'state');
    return {
      root,
      workerConfig: [
        'networkMode = "cni"',
        `cniConfigPath = ${JSON.stringify(network)}`,
        `cniBinaryPath = ${JSON.stringify(plugins)}`,
        `cniPoolSize = ${spareNetworks}`,
        `binary = ${JSON.stringify(scriptPath('runc.sh'))}`,
        `defaultCgroupParent = ${JSON.stringify(`/${group}`)}`,
        'gc = true',
        `gckeepstorage = ${size(keptShare)}`,
        `reservedSpace = ${size(0.1)}`,
        `maxUsedSpace = ${size(keptShare)}`,
        `minFreeSpace = ${size(freeShare)}`,
      ],
      command: [
        ...['unshare', '--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'],
        ...['--mount-proc', scriptPath('supervise.sh'), folder, directory, String(bytes)],
      ],
      env: {
        SLUICE_FOLDER: folder,
        SLUICE_NETWORK: outerNetwork,
        SLUICE_RUNC: findProgram('runc', path) ?? 'runc',
        SLUICE_BUILD_HOST: buildHost,
        SLUICE_GROUP: `/${group}`,
        SLUICE_DAEMON_GROUP: daemonGroup,
        ...memoryOfDaemon(each),
        SLUICE_BUILD_LIMITS: buildLimitLines(each),
        SLUICE_STATE: root,
        TMPDIR: join(root, 'tmp'),
        SLUICE_BUILD_DISK: String(kibibytes(Math.min(buildDiskBytes, bytes * mostBuildShare))),
      },
      freeBytes: size(freeShare),
      keptBytes: size(keptShare),
      writeRules,
      clear,
    };
  } catch (error) {
    await clear();
    throw error;
  }
}

/** Returns the machine's own search list, with the name server of the builder's network. */
async function resolverConfig(): Promise<string> {
  const own = await readFile('/etc/resolv.conf', 'utf8').catch(() => '');
  const kept = own.split('\n').filter(line => /^\s*(?:search|domain|options)\b/.test(line));
  return [`nameserver ${nameServer}`, ...kept, ''].join('\n');
}

/** Returns the requested size, or half of what the disk can provide. An existing state keeps its size. */
async function stateSize(directory: string, wanted: number): Promise<number> {
  const { bsize, bavail } = await statfs(directory);
  const marker = join(directory, 'state-size');
  const [last = 0, size = 0] = await readFile(marker, 'utf8').then(
    text => text.trim().split(' ').map(Number),
    () => [],
  );
  if (last === wanted && existsSync(join(directory, `state-${size}.img`))) return size;
  const possible = Math.min(wanted, Math.floor(bsize * bavail * stateShare));
  if (possible < leastStateBytes) {
    throw new Error(
      `the disk of ${directory} does not have enough space for the state of a builder`,
    );
  }
  const chosen = Math.floor(possible / blockBytes) * blockBytes;
  await writeFile(marker, `${wanted} ${chosen}\n`);
  return chosen;
}

function kibibytes(bytes: number): number {
  return Math.floor(bytes / 1024);
}

/** Hosts, such as `registry.example.com:5000`, that are open although their addresses are closed. */
interface OpenHosts {
  readonly builder: readonly string[];
  /** Also open to the builder. */
  readonly steps: readonly string[];
}

/** Returns the current addresses of these hosts, and the machine's own. Omits names without an address. */
async function findReach({ builder, steps }: OpenHosts): Promise<Reach> {
  return reachOf(await addressesOf(builder), await addressesOf(steps));
}

/** Like {@link findReach}, but synchronous and without names. */
function literalReach({ builder, steps }: OpenHosts): Reach {
  const literals = (hosts: readonly string[]) =>
    hosts.map(parseHost).filter(({ address }) => isIP(address) === 4);
  return reachOf(literals(builder), literals(steps));
}

function reachOf(builder: readonly OpenAddress[], steps: readonly OpenAddress[]): Reach {
  const machine = Object.values(networkInterfaces()).flatMap(entries =>
    (entries ?? []).map(({ address }) => address),
  );
  return {
    builder: distinctAddresses([...builder, ...steps]),
    steps: distinctAddresses(steps),
    machine,
  };
}

async function addressesOf(hosts: readonly string[]): Promise<OpenAddress[]> {
  const found: OpenAddress[] = [];
  // One at a time: each lookup takes a thread from the pool that also reads files.
  for (const { address: host, port } of hosts.map(parseHost)) {
    const addresses = isIP(host) === 4 ? [host] : await resolveHost(host);
    found.push(...addresses.map(address => ({ address, port })));
  }
  return found;
}

function parseHost(text: string): OpenAddress {
  const [, address = '', port] = /^(.*?)(?::(\d+))?$/.exec(text) ?? [];
  return { address, port: port === undefined ? undefined : Number(port) };
}

async function resolveHost(host: string): Promise<string[]> {
  if (host.startsWith('[')) return [];
  try {
    const found = await lookup(host, { all: true, family: 4 });
    return found.map(({ address }) => address).sort();
  } catch {
    return [];
  }
}

function distinctAddresses(entries: readonly OpenAddress[]): OpenAddress[] {
  const byKey = new Map(entries.map(entry => [`${entry.address} ${entry.port}`, entry]));
  return [...byKey.values()];
}

/** The commands that contain a builder, each with its Debian package. */
const packageOfProgram = {
  unshare: 'util-linux',
  nsenter: 'util-linux',
  flock: 'util-linux',
  losetup: 'mount',
  mount: 'mount',
  'mkfs.ext4': 'e2fsprogs',
  e2fsck: 'e2fsprogs',
  ip: 'iproute2',
  nft: 'nftables',
  slirp4netns: 'slirp4netns',
  runc: 'runc',
} as const;

/**
 * Returns why this machine cannot give a builder its own network and limits, with the packages to install; undefined if
 * it can.
 *
 * @param path folders in which programs are looked up, in the format of the variable PATH
 */
export function obstacleToContainment(path: string): string | undefined {
  if (process.platform !== 'linux') return 'that requires Linux';
  if (process.getuid?.() !== 0) return 'that requires root';
  const missing = Object.entries(packageOfProgram).filter(
    ([name]) => findProgram(name, path) === undefined,
  );
  if (missing.length === 0) return undefined;
  const names = [...new Set(missing.map(([, name]) => name))].join(' ');
  const commands = missing.map(([name]) => name).join(', ');
  return `${commands} ${missing.length === 1 ? 'is' : 'are'} missing: install with 'apt-get install ${names}'`;
}
