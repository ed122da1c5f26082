/**
 * Installs the real programs that tests run: `node scripts/tools.ts [name...]`. A name is `host`, `busybox`,
 * `apptainer`, `conda`, `conda-readers`, `buildkit`, `node`, `object-store`, `grype`, `helm`, `uv`, `wheels`, `r`, `checker`,
 * `estargz`, `stargz`, `cluster` or a Debian suite. Without names it installs all of them but `stargz`, which only the bench
 * runs, and `cluster`, which takes long and which `npm test` does not need. Skips installed programs. Requires Debian and
 * root, and starts no service.
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
  stargz,
  suites,
  toolsDirectory,
} from '../test/world/tools.ts';
import { buildApptainer, hasApptainer } from './tools/apptainer.ts';
import { buildBuildkit, hasBuildkit } from './tools/buildkit.ts';
import { buildBusybox, hasBusybox } from './tools/busybox.ts';
import { buildCluster, hasCluster } from './tools/cluster.ts';
import { buildConda, hasConda } from './tools/conda.ts';
import { buildCondaReaders, hasCondaReaders } from './tools/conda-readers.ts';
import { compile, hasCompiled } from './tools/go-programs.ts';
import { buildGrype, hasGrype } from './tools/grype.ts';
import { buildHelm, hasHelm } from './tools/helm.ts';
import { installOnHost } from './tools/host.ts';
import { lock } from './tools/lock.ts';
import { findMirror, findProxy } from './tools/mirror.ts';
import { buildNode, hasNode } from './tools/node.ts';
import { buildObjectStore, hasObjectStore } from './tools/object-store.ts';
import { buildR, hasR } from './tools/r.ts';
import { buildRoot } from './tools/root.ts';
import { fetchUv, hasUv } from './tools/uv.ts';
import { fetchWheels, hasWheels } from './tools/wheels.ts';

const names = [
  'host',
  'busybox',
  'apptainer',
  'conda',
  'conda-readers',
  'buildkit',
  'node',
  'object-store',
  'grype',
  'helm',
  'uv',
  'wheels',
  'r',
  'checker',
  'estargz',
  'stargz',
  'cluster',
  ...suites,
];
const wanted = process.argv.slice(2);
const unknown = wanted.filter(name => !names.includes(name));
if (unknown.length > 0) {
  console.error(`Unknown tool '${unknown[0]}': expected ${names.join(', ')}`);
  process.exit(2);
}
const isWanted = (name: string) => wanted.length === 0 || wanted.includes(name);

const missingCommands = Object.keys(hostPackages).filter(name => !findCommand(name));
const missingRoots = suites.filter(suite => isWanted(suite) && !existsSync(rootDirectory(suite)));
const needsBusybox = isWanted('busybox') && !hasBusybox();
const needsApptainer = isWanted('apptainer') && !hasApptainer();
const needsConda = isWanted('conda') && !hasConda();
const needsReaders = isWanted('conda-readers') && !hasCondaReaders();
const needsBuildkit = isWanted('buildkit') && !hasBuildkit(buildkitDirectory());
const needsNode = isWanted('node') && !hasNode();
const needsStore = isWanted('object-store') && !hasObjectStore();
const needsGrype = isWanted('grype') && !hasGrype();
const needsHelm = isWanted('helm') && !hasHelm();
const needsUv = isWanted('uv') && !hasUv();
const needsWheels = isWanted('wheels') && !hasWheels();
const needsR = isWanted('r') && !hasR();
const needsChecker = isWanted('checker') && !hasCompiled(checker);
const needsEstargz = isWanted('estargz') && !hasCompiled(estargzVerifier);
const needsStargz = wanted.includes('stargz') && !hasCompiled(stargz);
const needsCluster = wanted.includes('cluster') && !hasCluster();
const needsHost =
  missingCommands.length > 0 &&
  (isWanted('host') || missingRoots.length > 0 || needsConda || needsReaders || needsWheels);
const needsPrograms = needsNode || needsUv || needsWheels || needsReaders;
const needsFiles =
  missingRoots.length > 0 || needsBusybox || needsApptainer || needsConda || needsR;
const needsCompilers =
  needsBuildkit ||
  needsStore ||
  needsGrype ||
  needsHelm ||
  needsChecker ||
  needsEstargz ||
  needsStargz ||
  needsCluster;
if (!needsHost && !needsCompilers && !needsPrograms && !needsFiles) {
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
  if (needsBuildkit) await buildBuildkit(buildkitDirectory());
}
if (needsNode) await buildNode();
if (needsStore) await buildObjectStore();
if (needsGrype) await buildGrype();
if (needsHelm) await buildHelm();
if (needsUv) await fetchUv();
if (needsWheels) await fetchWheels();
if (needsChecker) await compile(checker);
if (needsEstargz) await compile(estargzVerifier);
if (needsStargz) await compile(stargz);
if (needsCluster) await buildCluster();
if (needsReaders) await buildCondaReaders();
const mirror = needsFiles ? await findMirror() : undefined;
if (mirror !== undefined) {
  const proxy = await findProxy();
  if (proxy !== undefined) process.env.http_proxy ??= proxy;
  if (needsBusybox) await buildBusybox(mirror);
  if (needsApptainer) await buildApptainer(mirror);
  if (needsConda) await buildConda(mirror);
  if (needsR) await buildR(mirror);
  // In parallel: while one waits for the network, another unpacks.
  await Promise.all(missingRoots.map(suite => buildRoot(suite, mirror)));
}
