/**
 * Installs the real programs that tests run: `node scripts/tools.ts [name...]`. A name is `host`, `busybox`,
 * `apptainer`, `conda`, `conda-readers`, `buildkit`, `node`, `object-store`, `grype`, `helm`, `uv`, `wheels`, `r`, `checker`,
 * `estargz`, `stargz`, `trivy`, `trivy-database`, `cluster`, `traefik`, `metrics-server` or a Debian suite. Without names it installs all that `npm test`
 * runs: only the bench runs `stargz`, and `npm run trivy` and `npm run cluster` the last ones, which take long to compile.
 * Skips installed programs. Requires Debian and root, and starts no service.
 */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import {
  buildkitDirectory,
  checker,
  estargzVerifier,
  findCommand,
  goCaches,
  hostPackages,
  rootDirectory,
  type SourceProgram,
  stargz,
  suites,
  toolsDirectory,
  trivyDatabase,
} from '../test/world/tools.ts';
import { buildApptainer, hasApptainer } from './tools/apptainer.ts';
import { buildBuildkit, hasBuildkit } from './tools/buildkit.ts';
import { buildBusybox, hasBusybox } from './tools/busybox.ts';
import { buildCluster, hasCluster } from './tools/cluster.ts';
import { buildConda, hasConda } from './tools/conda.ts';
import { buildCondaReaders, hasCondaReaders } from './tools/conda-readers.ts';
import { compile, hasCompiled } from './tools/go-programs.ts';
import { buildHelm, hasHelm } from './tools/helm.ts';
import { installOnHost } from './tools/host.ts';
import { lock } from './tools/lock.ts';
import { buildMetricsServer, hasMetricsServer } from './tools/metrics-server.ts';
import { findMirror, findProxy } from './tools/mirror.ts';
import { buildNode, hasNode } from './tools/node.ts';
import { buildObjectStore, hasObjectStore } from './tools/object-store.ts';
import { buildR, hasR } from './tools/r.ts';
import { buildRoot } from './tools/root.ts';
import { buildGrype, buildTrivy, hasGrype, hasTrivy } from './tools/scanners.ts';
import { buildTraefik, hasTraefik } from './tools/traefik.ts';
import { fetchUv, hasUv } from './tools/uv.ts';
import { fetchWheels, hasWheels } from './tools/wheels.ts';

/** A program or a folder of files that tests run. */
type Tool = ToolAbout & (OwnTool | DebianTool);

interface OwnTool {
  build(): Promise<void>;
  readonly buildFrom?: undefined;
}

interface DebianTool {
  /** Makes it of packages of Debian, from a mirror of its archive. */
  buildFrom(mirror: string): Promise<void>;
  readonly build?: undefined;
}

interface ToolAbout {
  has(): boolean;
  /** True if the commands of the machine are used to make it. */
  readonly usesHost?: boolean;
  /** True if making it may install packages on the machine. */
  readonly changesHost?: boolean;
  /** True if `npm test` does not run it. */
  readonly isRare?: boolean;
}

const compiled = (program: SourceProgram): Tool => ({
  has: () => hasCompiled(program),
  build: () => compile(program),
});

// In the order in which they are installed.
const tools: Readonly<Record<string, Tool>> = {
  buildkit: {
    has: () => hasBuildkit(buildkitDirectory()),
    build: () => buildBuildkit(buildkitDirectory()),
    changesHost: true,
  },
  node: { has: hasNode, build: buildNode },
  'object-store': { has: hasObjectStore, build: buildObjectStore },
  grype: { has: hasGrype, build: buildGrype },
  helm: { has: hasHelm, build: buildHelm },
  uv: { has: hasUv, build: fetchUv },
  wheels: { has: hasWheels, build: fetchWheels, usesHost: true },
  checker: compiled(checker),
  estargz: compiled(estargzVerifier),
  stargz: { ...compiled(stargz), isRare: true },
  trivy: { has: hasTrivy, build: buildTrivy, isRare: true },
  'trivy-database': { ...compiled(trivyDatabase), isRare: true },
  cluster: { has: hasCluster, build: buildCluster, isRare: true },
  traefik: { has: hasTraefik, build: buildTraefik, isRare: true },
  'metrics-server': { has: hasMetricsServer, build: buildMetricsServer, isRare: true },
  'conda-readers': { has: hasCondaReaders, build: buildCondaReaders, usesHost: true },
  busybox: { has: hasBusybox, buildFrom: buildBusybox },
  apptainer: { has: hasApptainer, buildFrom: buildApptainer },
  conda: { has: hasConda, buildFrom: buildConda, usesHost: true },
  r: { has: hasR, buildFrom: buildR },
};

const names = ['host', ...Object.keys(tools), ...suites];
const wanted = process.argv.slice(2);
const unknown = wanted.filter(name => !names.includes(name));
if (unknown.length > 0) {
  console.error(`Unknown tool '${unknown[0]}': expected ${names.join(', ')}`);
  process.exit(2);
}
const isWanted = (name: string) => wanted.length === 0 || wanted.includes(name);

const missingCommands = Object.keys(hostPackages).filter(name => !findCommand(name));
const missingRoots = suites.filter(suite => isWanted(suite) && !existsSync(rootDirectory(suite)));
const missing = Object.entries(tools)
  .filter(([name, tool]) => (tool.isRare ? wanted.includes(name) : isWanted(name)))
  .map(([, tool]) => tool)
  .filter(tool => !tool.has());
const usesHost = isWanted('host') || missingRoots.length > 0 || missing.some(tool => tool.usesHost);
const needsHost = missingCommands.length > 0 && usesHost;
if (!needsHost && missing.length === 0 && missingRoots.length === 0) {
  console.log(`Everything is installed (${toolsDirectory()})`);
  process.exit(0);
}
if (process.getuid?.() !== 0) {
  console.error('Installing the tools requires root: run `npm run tools` as root');
  process.exit(1);
}

await mkdir(toolsDirectory(), { recursive: true });
// A test compiles BuildKit again, as a newcomer's server does.
Object.assign(process.env, goCaches());
{
  using _host = await lock('host');
  await installOnHost(Object.keys(hostPackages).filter(name => !findCommand(name)));
  await install(missing.filter(tool => tool.changesHost));
}
await install(missing.filter(tool => !tool.changesHost));
const ofDebian = missing.filter(tool => tool.buildFrom !== undefined);
if (ofDebian.length > 0 || missingRoots.length > 0) {
  const mirror = await findMirror();
  const proxy = await findProxy();
  if (proxy !== undefined) process.env.http_proxy ??= proxy;
  for (const tool of ofDebian) await tool.buildFrom?.(mirror);
  // In parallel: while one waits for the network, another unpacks.
  await Promise.all(missingRoots.map(suite => buildRoot(suite, mirror)));
}

async function install(some: readonly Tool[]): Promise<void> {
  for (const tool of some) await tool.build?.();
}
