import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../../src/builds/builder/own/builder-process.ts';
import { isExecutable } from '../../src/foundation/limited-program.ts';

/** The Debian suites whose container programs the tests run, oldest first. */
export const suites = ['bookworm', 'trixie', 'forky'] as const;
export type Suite = (typeof suites)[number];
/** The oldest and the newest: for what depends on clients less than plain pulls and pushes, which run with all. */
export const outerSuites = ['bookworm', 'forky'] as const satisfies readonly Suite[];

export type BusyboxArchitecture = 'amd64' | 'arm64';

const common = ['ca-certificates', 'mount', 'containerd', 'runc', 'docker.io', 'podman', 'skopeo'];

/** What is installed into the private root of each suite, and what its debootstrap script is. */
export const rootRecipes: Readonly<Record<Suite, { script: string; packages: string[] }>> = {
  bookworm: { script: 'bookworm', packages: [...common, 'buildah'] },
  trixie: { script: 'sid', packages: [...common, 'docker-cli', 'buildah', 'oras', 'cosign'] },
  forky: {
    script: 'sid',
    packages: [
      ...[...common, 'docker-cli', 'buildah', 'oras', 'cosign', 'crane', 'docker-compose'],
      // What the image of BuildKit holds beside BuildKit.
      ...['containernetworking-plugins', 'busybox', 'iptables', 'git'],
    ],
  },
};

/** Commands the tests run on the machine itself, and the Debian package that brings each. */
export const hostPackages: Readonly<Record<string, string>> = {
  // The engine of Chromium without its windows, whose own pages take twice the time of those of a test.
  'chromium-headless-shell': 'chromium-headless-shell',
  'firefox-esr': 'firefox-esr',
  debootstrap: 'debootstrap',
  'docker-registry': 'docker-registry',
  nginx: 'nginx-light',
  wrk: 'wrk',
  // Without its service.
  tinyproxy: 'tinyproxy-bin',
  curl: 'curl',
  openssl: 'openssl',
  runc: 'runc',
  slirp4netns: 'slirp4netns',
  nft: 'nftables',
  ip: 'iproute2',
  rootlesskit: 'rootlesskit',
  newuidmap: 'uidmap',
  setcap: 'libcap2-bin',
  python3: 'python3',
  script: 'bsdutils',
  mksquashfs: 'squashfs-tools',
  pip3: 'python3-pip',
  bzip2: 'bzip2',
  'mkfs.xfs': 'xfsprogs',
  'mkfs.ext4': 'e2fsprogs',
  losetup: 'mount',
  // Programs that Debian keeps outside of PATH.
  initdb: 'postgresql',
  postgres: 'postgresql',
  faketime: 'faketime',
  git: 'git',
  // With ssh-keygen, ssh-add and ssh-agent.
  ssh: 'openssh-client',
  sshd: 'openssh-server',
  // Checks rules for alerts.
  promtool: 'prometheus',
  // Checks units, also where systemd does not run.
  'systemd-analyze': 'systemd',
  'systemd-sysusers': 'systemd',
  // For the completion scripts.
  zsh: 'zsh',
  fish: 'fish',
};

/** Older versions of Node that the packages are tested with, by their major version. */
export const nodeVersions = { 20: '20.20.2', 22: '22.23.3' } as const;

/** The version of BuildKit everywhere: what `npm run buildkit` installs, and the images in the files for operators. */
export const buildkitVersion = '0.34.2';
/** The checksum of its module, as in a `go.sum`. */
export const buildkitSum = 'h1:fXgOe79JW5zJNDumRtwTemOklLX66otQokObUXuiGJo=';
/** The version of versitygw, an S3-compatible object store. */
export const objectStoreVersion = '1.8.0';
/** Helm, kubeconform, and the Kubernetes whose schema the chart is held against. */
export const helmVersions = { helm: '4.3.1', kubeconform: '0.8.0', kubernetes: '1.37.2' } as const;
/** Traefik and metrics-server, for the cluster. */
export const traefikVersion = '3.7.13';
export const metricsServerVersion = '0.9.0';
// Raised when the way a root is made changes though its packages do not.
const recipeVersion = 1;
const installCommand = 'npm run tools';

/** The folder of the private roots: outside the project, so that fresh clones find them again. */
export function toolsDirectory(): string {
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  return process.env.SLUICE_TOOLS || join(cache, 'sluice-tools');
}

/** The private root of a suite; the name changes with the recipe, so an old one is never used. */
export function rootDirectory(suite: Suite): string {
  const recipe = JSON.stringify([recipeVersion, rootRecipes[suite]]);
  const hash = createHash('sha256').update(recipe).digest('hex').slice(0, 12);
  return join(toolsDirectory(), `${suite}-${hash}`);
}

/** The statically linked busybox that the images of the corpus carry. */
export function busyboxPath(architecture: BusyboxArchitecture): string {
  return join(toolsDirectory(), `busybox-${recipeVersion}`, architecture);
}

/** Where buildkitd and buildctl are. */
export function buildkitDirectory(): string {
  return join(toolsDirectory(), `buildkit-${buildkitVersion}`);
}

/** Go's own variables for its caches, which make a second compilation of BuildKit one of seconds. */
export function goCaches(): Readonly<Record<'GOCACHE' | 'GOMODCACHE', string>> {
  const folder = join(toolsDirectory(), 'go');
  return { GOCACHE: join(folder, 'compiled'), GOMODCACHE: join(folder, 'modules') };
}

/** Where Apptainer is, with siftool, squashfs-tools and an emulator of arm64, as in a root directory. */
export function apptainerDirectory(): string {
  return join(toolsDirectory(), `apptainer-${recipeVersion}`);
}

/** Where a package manager for Conda is, with a small system to run it in. */
export function condaDirectory(): string {
  return join(toolsDirectory(), `conda-${recipeVersion}`);
}

/** Returns the directory with programs of others that read lock files and bills of materials. */
export function condaReadersDirectory(): string {
  return join(toolsDirectory(), `conda-readers-${recipeVersion}`);
}

/** Returns the directory with older versions of Node. */
export function nodeDirectory(): string {
  return join(toolsDirectory(), `node-${Object.values(nodeVersions).join('-')}`);
}

/** Where the object store is. */
export function objectStoreDirectory(): string {
  return join(toolsDirectory(), `versitygw-${objectStoreVersion}`);
}

/** Returns the path of the object store. Throws an `Error` when it is not installed. */
export function requireObjectStore(): string {
  const path = join(objectStoreDirectory(), 'versitygw');
  if (!existsSync(path)) throw missing('The object store versitygw is missing');
  return path;
}

/** A program with a folder of sources in this project, which is compiled with its libraries from the Go module proxy. */
export interface SourceProgram {
  readonly name: string;
  /** The folder of its sources, with a `go.sum`. */
  readonly source: string;
  /** What it is, such as `checker of histories`. */
  readonly what: string;
}

export const checker: SourceProgram = {
  ...{ name: 'linear', what: 'checker of histories' },
  source: fileURLToPath(new URL('../storm/linear', import.meta.url)),
};
export const estargzVerifier: SourceProgram = {
  ...{ name: 'verify-estargz', what: 'verifier of eStargz layers' },
  source: fileURLToPath(new URL('../conda/layers/verify-estargz', import.meta.url)),
};
/** Only the bench requires it. */
export const stargz: SourceProgram = {
  ...{ name: 'stargz', what: 'lazy snapshotter for containerd' },
  source: fileURLToPath(new URL('../../bench/peers/stargz', import.meta.url)),
};

/** Only `npm run trivy` requires it. */
export const trivyDatabase: SourceProgram = {
  ...{ name: 'trivy-database', what: 'writer of databases for Trivy' },
  source: fileURLToPath(new URL('../scans/trivy-database', import.meta.url)),
};

/** Returns where such a program is compiled to; the name changes with its source. */
export function compiledDirectory({ name, source }: SourceProgram): string {
  const hash = createHash('sha256');
  for (const file of globSync('*', { cwd: source }).sort()) {
    hash.update(readFileSync(join(source, file)));
  }
  return join(toolsDirectory(), `${name}-${hash.digest('hex').slice(0, 12)}`);
}

/** Returns the path of the program that checks histories. Throws an `Error` when it is not installed. */
export function requireChecker(): string {
  return requireCompiled(checker);
}

/** Returns the path of the program that verifies layers in the eStargz form. Throws an `Error` when it is not installed. */
export function requireEstargz(): string {
  return requireCompiled(estargzVerifier);
}

/** Returns the path of the lazy snapshotter. Throws an `Error` when it is not installed. */
export function requireStargz(): string {
  return requireCompiled(stargz, 'npm run tools -- stargz');
}

function requireCompiled(program: SourceProgram, command?: string): string {
  const path = join(compiledDirectory(program), program.name);
  if (!existsSync(path)) throw missing(`The ${program.what} is missing`, command);
  return path;
}

/** The version of uv, which chooses Python packages: what `npm run uv` installs. */
export const uvVersion = '0.13.9';

/** Where uv is. */
export const uvFolder = join(toolsDirectory(), `uv-${uvVersion}`);

/** Returns the path of uv. Throws an `Error` when it is not installed. */
export function requireUv(): string {
  const path = join(uvFolder, 'uv');
  if (!existsSync(path)) throw missing('uv is missing');
  return path;
}

/** Where small wheels of many shapes are. */
export function wheelsDirectory(): string {
  return join(toolsDirectory(), `wheels-${recipeVersion}`);
}

/** Returns the directory of the wheels. Throws an `Error` when they are not there. */
export function requireWheels(): string {
  if (!existsSync(wheelsDirectory())) throw missing('The Python wheels are missing');
  return wheelsDirectory();
}

/** The version of Grype, which finds vulnerabilities in images. */
export const grypeVersion = '0.121.2';

/** Where Grype is. */
export function grypeDirectory(): string {
  return join(toolsDirectory(), `grype-${grypeVersion}`);
}

/** Returns the path of Grype. Throws an `Error` when it is not installed. */
export function requireGrype(): string {
  const path = join(grypeDirectory(), 'grype');
  if (!existsSync(path)) throw missing('Grype is missing');
  return path;
}

/** The version of Trivy, which finds vulnerabilities in images. */
export const trivyVersion = '0.74.0';

/** Where Trivy is. */
export function trivyDirectory(): string {
  return join(toolsDirectory(), `trivy-${trivyVersion}`);
}

/** Returns the path of Trivy. Throws an `Error` when it is not installed. */
export function requireTrivy(): string {
  const path = join(trivyDirectory(), 'trivy');
  if (!existsSync(path)) throw missing('Trivy is missing', 'npm run tools -- trivy');
  return path;
}

/** Returns the path of the program that writes databases for Trivy. Throws an `Error` when it is not installed. */
export function requireTrivyDatabase(): string {
  return requireCompiled(trivyDatabase, 'npm run tools -- trivy-database');
}

/** Where a small Debian with R is. */
export function rDirectory(): string {
  return join(toolsDirectory(), `r-${recipeVersion}`);
}

/** Returns the directory of the Debian with R. Throws an `Error` when it is not there. */
export function requireR(): string {
  if (!existsSync(rDirectory())) throw missing('R is missing');
  return rDirectory();
}

/** Where Helm and kubeconform are, and the schema of Kubernetes. */
export function helmDirectory(): string {
  return join(toolsDirectory(), `helm-${Object.values(helmVersions).join('-')}`);
}

/** Returns the paths of Helm, kubeconform and the schema. Throws an `Error` when they are not installed. */
export function requireHelm(): { helm: string; kubeconform: string; schema: string } {
  const folder = helmDirectory();
  if (!existsSync(folder)) throw missing('Helm is missing');
  return {
    helm: join(folder, 'helm'),
    kubeconform: join(folder, 'kubeconform'),
    schema: join(folder, 'kubernetes.json'),
  };
}

/** Where the programs of Kubernetes and etcd are. Only the test of the chart on a cluster requires them. */
export function clusterDirectory(): string {
  return join(toolsDirectory(), `cluster-${helmVersions.kubernetes}`);
}

/** Returns the directory of Kubernetes and etcd. Throws an `Error` when they are not installed. */
export function requireCluster(): string {
  if (!existsSync(clusterDirectory())) {
    throw new Error(
      "Kubernetes is missing: run 'npm run tools -- cluster' as root on a Debian machine",
    );
  }
  return clusterDirectory();
}

/** Where the ingress controller is. */
export function traefikDirectory(): string {
  return join(toolsDirectory(), `traefik-${traefikVersion}`);
}

/** Returns the path of the ingress controller. Throws an `Error` when it is not installed. */
export function requireTraefik(): string {
  if (!existsSync(traefikDirectory()))
    throw missing('Traefik is missing', `${installCommand} -- traefik`);
  return join(traefikDirectory(), 'traefik');
}

/** Where metrics-server is. */
export function metricsServerDirectory(): string {
  return join(toolsDirectory(), `metrics-server-${metricsServerVersion}`);
}

/** Returns the path of metrics-server. Throws an `Error` when it is not installed. */
export function requireMetricsServer(): string {
  const directory = metricsServerDirectory();
  if (!existsSync(directory))
    throw missing('metrics-server is missing', `${installCommand} -- metrics-server`);
  return join(directory, 'metrics-server');
}

function postgresFolders(): string[] {
  return globSync('/usr/lib/postgresql/*/bin').sort().reverse();
}

/** The absolute path of a command of the machine, or undefined. */
export function findCommand(name: string): string | undefined {
  if (isAbsolute(name)) return isExecutable(name) ? name : undefined;
  const folders = [process.env.PATH ?? '', '/usr/sbin', '/sbin', ...postgresFolders()];
  return findProgram(name, folders.join(delimiter));
}

/** Like {@link findCommand}, but throws an error with the installing command if it is missing. */
export function requireCommand(name: string): string {
  const path = findCommand(name);
  if (path === undefined) throw missing(`The command '${name}' is not installed`);
  return path;
}

/** Throws an error with the installing command unless the roots can be used. */
export function requireTools(needed: readonly Suite[] = suites): void {
  if (process.getuid?.() !== 0) throw missing('Private roots can only be entered by root');
  for (const name of ['unshare', 'nsenter', 'pivot_root']) requireCommand(name);
  for (const suite of needed) {
    if (!existsSync(rootDirectory(suite))) {
      throw missing(`The private root '${suite}' is missing in ${toolsDirectory()}`);
    }
  }
}

/** The path of busybox for an architecture; throws when it is not installed. */
export function requireBusybox(architecture: BusyboxArchitecture): string {
  const path = busyboxPath(architecture);
  if (!existsSync(path)) throw missing(`busybox for ${architecture} is missing`);
  return path;
}

/** The directory of Apptainer; throws when it is not installed. */
export function requireApptainer(): string {
  if (!existsSync(apptainerDirectory())) throw missing('Apptainer is missing');
  return apptainerDirectory();
}

/** The directory of the package manager for Conda; throws when it is not installed. */
export function requireConda(): string {
  if (!existsSync(condaDirectory())) throw missing('The package manager for Conda is missing');
  return condaDirectory();
}

/** Returns the directory of the readers of lock files. Throws an `Error` when they are not installed. */
export function requireCondaReaders(): string {
  if (!existsSync(condaReadersDirectory())) throw missing('The readers of lock files are missing');
  return condaReadersDirectory();
}

/** Returns the path of an older Node. Throws an `Error` when it is not installed. */
export function requireNode(major: keyof typeof nodeVersions): string {
  const path = join(nodeDirectory(), `node_modules/node-${major}/bin/node`);
  if (!existsSync(path)) throw missing(`Node ${major} is missing`);
  return path;
}

function missing(what: string, command = installCommand): Error {
  return new Error(`${what}: run '${command}' as root on a Debian machine`);
}
