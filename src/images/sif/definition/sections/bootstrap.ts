import { posix } from 'node:path';
import { OciSyntaxError, parseReference } from '../../../../oci/naming.ts';
import { type DefinitionStage, type Header, refuseLine, shownText } from '../parser.ts';

/** The base of a stage. */
export interface StageBase {
  /** Name of an image, or `scratch`; the path of a SIF file in the build context. */
  readonly image: string;
  /** Packages to install first. */
  readonly packages: readonly string[];
  /** The program that installs them. Default: `apt`. */
  readonly manager?: 'apt' | 'rpm' | 'zypper';
  /** Where the Singularity image of this name is; absent for a container image. */
  readonly sif?: 'registry' | 'context';
  /** Warnings for the caller about the choice of the base. */
  readonly warning?: string;
}

/** Returns the image that a stage is built from. Throws a `Fault` with the line if there is none. */
export function stageBase(stage: DefinitionStage, options: BaseOptions): StageBase {
  const bootstrap = stage.headers.get('bootstrap');
  if (bootstrap === undefined) refuseLine(stage.line, "its first header is not 'Bootstrap:'");
  checkHeaders(stage);
  switch (bootstrap.value.toLowerCase()) {
    case 'docker':
      return { image: dockerImage(stage), packages: [] };
    case 'scratch':
      return { image: 'scratch', packages: [] };
    case 'library':
      return libraryBase(stage, bootstrap);
    case 'debootstrap':
      return debootstrapBase(stage, bootstrap);
    case 'yum':
    case 'dnf':
    case 'zypper':
      return rpmBase(stage, bootstrap);
    case 'arch':
      return insteadOf("'Bootstrap: arch'", bootstrap, 'archlinux:latest');
    case 'busybox':
      return busyboxBase(stage, bootstrap);
    case 'oras':
      return orasBase(fromOf(stage));
    case 'localimage':
      return localBase(fromOf(stage), options);
    case 'shub':
      refuseHub(bootstrap, options.ownHost);
  }
  refuseLine(
    bootstrap.line,
    `${shownText(`Bootstrap: ${bootstrap.value}`)} is not supported: build from an image of a registry, with 'Bootstrap: docker'`,
  );
}

// Apptainer accepts all of these headers with any agent, and each agent ignores those of others.
const knownHeaders = new Set([
  ...['bootstrap', 'from', 'includecmd', 'mirrorurl', 'updateurl', 'osversion', 'include'],
  ...['library', 'registry', 'namespace', 'stage', 'product', 'user', 'regcode', 'productpgp'],
  ...['registerurl', 'modules', 'fingerprints', 'confurl', 'setopt'],
]);

function checkHeaders({ headers }: DefinitionStage): void {
  for (const [name, header] of headers) {
    if (knownHeaders.has(name) || /^otherurl\d+$/.test(name)) continue;
    refuseLine(header.line, `the header ${shownText(name)} is unknown`);
  }
}

function fromOf({ headers, line }: DefinitionStage): Header {
  const from = headers.get('from');
  if (!from?.value) refuseLine(line, "it does not name its base image: add 'From:'");
  const [variable, name] = /\$\{?(\w+)\}?/.exec(from.value) ?? [];
  if (variable !== undefined) {
    refuseLine(
      from.line,
      `${shownText(variable)} is not replaced in a header: write {{ ${name} }}, and give its value with the request ('buildArgs', sluice build --build-arg ${name}=...) or in '%arguments'`,
    );
  }
  return from;
}

function dockerImage(stage: DefinitionStage): string {
  const { headers } = stage;
  const from = fromOf(stage);
  const parts = [headers.get('registry'), headers.get('namespace'), from];
  const image = parts
    .map(part => part?.value)
    .filter(Boolean)
    .join('/');
  return checkedImage(image, from);
}

/** The library's own distributions; each is also an official image on Docker Hub under that name. */
const imageDistributions = new Set([
  ...['almalinux', 'alpine', 'amazonlinux', 'archlinux', 'busybox', 'centos', 'clearlinux'],
  ...['debian', 'fedora', 'opensuse', 'oraclelinux', 'rockylinux', 'ubuntu'],
]);

const officialLibrary = /^https:\/\/(?:library\.sylabs\.io|cloud\.sylabs\.io)\/?$/;

function libraryBase(stage: DefinitionStage, bootstrap: Header): StageBase {
  const { headers } = stage;
  const from = fromOf(stage);
  const library = headers.get('library')?.value ?? '';
  const [, name = '', tag = 'latest'] =
    /^(?:library:\/\/)?(?:(?:library\/)?default\/|library\/)?([a-z]+)(?::([\w][\w.-]*))?$/.exec(
      from.value,
    ) ?? [];
  const isOfficial = library === '' || officialLibrary.test(library);
  if (!isOfficial || !imageDistributions.has(name) || tag.startsWith('sha256.')) {
    refuseLine(
      bootstrap.line,
      `${shownText(from.value)} is in a library that is not a container registry: only its distributions, such as ubuntu:24.04, are supported. Push the image to a registry, and build from it with 'Bootstrap: docker'`,
    );
  }
  return insteadOf(`'Bootstrap: library', 'From: ${from.value}'`, bootstrap, `${name}:${tag}`);
}

const ubuntuReleases = new Set([
  ...['precise', 'trusty', 'utopic', 'vivid', 'wily', 'xenial', 'yakkety', 'zesty', 'artful'],
  ...['bionic', 'cosmic', 'disco', 'eoan', 'focal', 'groovy', 'hirsute', 'impish', 'jammy'],
  ...['kinetic', 'lunar', 'mantic', 'noble', 'oracular', 'plucky', 'questing', 'resolute'],
]);
const debianReleases = new Set([
  ...['wheezy', 'jessie', 'stretch', 'buster', 'bullseye', 'bookworm', 'trixie', 'forky', 'sid'],
  ...['oldoldstable', 'oldstable', 'stable', 'testing', 'unstable'],
]);

function debootstrapBase({ headers, line }: DefinitionStage, bootstrap: Header): StageBase {
  const version = headers.get('osversion');
  if (!version?.value) refuseLine(line, "it does not name a release: add 'OSVersion:'");
  const release = version.value.toLowerCase();
  const distribution = distributionOf(release, headers.get('mirrorurl')?.value ?? '');
  if (distribution === undefined || !/^[a-z]+$/.test(release)) {
    refuseLine(
      version.line,
      `${shownText(version.value)} is not a release of Debian or Ubuntu that has a Docker image: build from an image, with 'Bootstrap: docker'`,
    );
  }
  const what = `'Bootstrap: debootstrap', 'OSVersion: ${release}'`;
  return {
    ...insteadOf(what, bootstrap, `${distribution}:${release}`),
    packages: includedPackages(headers, /^[a-z0-9][a-z0-9+.-]*$/),
    manager: 'apt',
  };
}

function distributionOf(release: string, mirror: string): 'debian' | 'ubuntu' | undefined {
  if (ubuntuReleases.has(release)) return 'ubuntu';
  if (debianReleases.has(release)) return 'debian';
  return /\b(debian|ubuntu)\b/.exec(mirror.toLowerCase())?.[1] as 'debian' | 'ubuntu' | undefined;
}

/** Returns the Docker image of the release of Busybox that `MirrorURL:` names, or of the newest. */
function busyboxBase({ headers }: DefinitionStage, bootstrap: Header): StageBase {
  const mirror = headers.get('mirrorurl')?.value ?? '';
  const release = /\/(\d{1,3}\.\d{1,3}\.\d{1,3})[/-]/.exec(mirror)?.[1] ?? 'latest';
  return insteadOf("'Bootstrap: busybox'", bootstrap, `busybox:${release}`);
}

/** The Docker images of distributions, by a word in the addresses of their mirrors. */
const rpmImages: readonly (readonly [RegExp, string])[] = [
  [/\bcentos/, 'centos'],
  [/\brocky/, 'rockylinux'],
  [/\balma/, 'almalinux'],
  [/\bfedora/, 'fedora'],
  [/\boracle/, 'oraclelinux'],
  [/\btumbleweed\b/, 'opensuse/tumbleweed'],
  [/\bopensuse\b/, 'opensuse/leap'],
];

/**
 * Returns the Docker image of the distribution that `yum`, `dnf` or `zypper` would install from `MirrorURL:`. Throws a
 * `Fault` with the line for a mirror that does not show its distribution or release.
 */
function rpmBase({ headers }: DefinitionStage, bootstrap: Header): StageBase {
  const mirror = headers.get('mirrorurl');
  const address = mirror?.value.toLowerCase() ?? '';
  const [, image] = rpmImages.find(([word]) => word.test(address)) ?? [];
  if (mirror === undefined || image === undefined) {
    refuseLine(
      (mirror ?? bootstrap).line,
      `'MirrorURL:' does not name a distribution that has a Docker image (CentOS, Rocky Linux, AlmaLinux, Fedora, Oracle Linux, openSUSE): build from an image, with 'Bootstrap: docker'`,
    );
  }
  const version = headers.get('osversion');
  const release = version?.value || (/\/(\d[\d.]{0,20})(?:-\w{1,20})?\//.exec(address)?.[1] ?? '');
  const isRolling = image === 'opensuse/tumbleweed';
  if (!isRolling && !/^\d{1,4}(?:\.\d{1,8}){0,3}$/.test(release)) {
    const given =
      release === '' ? 'the release is missing' : `${shownText(release)} is not a release`;
    refuseLine((version ?? mirror).line, `${given}: write 'OSVersion:' with its number`);
  }
  const name = `${image}:${isRolling ? 'latest' : release}`;
  return {
    ...insteadOf(
      `'Bootstrap: ${bootstrap.value}', 'MirrorURL: ${mirror.value.slice(0, 80)}'`,
      bootstrap,
      name,
    ),
    packages: includedPackages(headers, /^@?[A-Za-z0-9][\w+.-]*$/),
    manager: image.startsWith('opensuse/') ? 'zypper' : 'rpm',
  };
}

/** The limit of Linux. */
const longestPath = 4096;

/** Returns the Singularity image that `Bootstrap: oras` names. Throws a `Fault` with the line if it names none. */
function orasBase(from: Header): StageBase {
  const image = from.value.replace(/^(?:oras:)?\/\//i, '');
  return { image: checkedImage(image, from), packages: [], sif: 'registry' };
}

/**
 * Returns the image that `Bootstrap: localimage` names: one in a registry, or a SIF file in the build context. Throws a
 * `Fault` with the line for a file of the machine of the caller.
 */
export function localBase(from: Header, { ownHost, hasContext }: BaseOptions): StageBase {
  const { value, line } = from;
  if (/^oras:\/\//i.test(value)) return orasBase(from);
  const [, image] = /^docker:\/\/(.*)$/i.exec(value) ?? [];
  if (image !== undefined) return { image: checkedImage(image, from), packages: [] };
  if (value.startsWith(`${ownHost}/`)) return orasBase(from);
  // Normalising takes quadratic time.
  const isPath = value.length <= longestPath;
  const path = isPath ? posix.normalize(value) : '';
  const isInContext = isPath && !/^(?:\/|~|\.\.(?:\/|$)|\.\/?$|\w+:\/)/.test(path);
  if (isInContext && hasContext) return { image: path, packages: [], sif: 'context' };
  const what = isInContext
    ? 'is a file, and the request has no build context: send its directory with the request (sluice build -f image.def DIRECTORY)'
    : 'is not in the build context: put the file there, and write its path in the context';
  refuseLine(
    line,
    `${shownText(value)} ${what}. Or push it with 'apptainer push ${fileName(value)} oras://${ownHost}/<repository>:<tag>', and build from it with 'Bootstrap: oras' and 'From: ${ownHost}/<repository>:<tag>'`,
  );
}

function fileName(path: string): string {
  return shownText(path.slice(path.lastIndexOf('/') + 1) || 'base.sif').slice(1, -1);
}

/** Throws the `Fault` of `Bootstrap: shub`. */
function refuseHub({ line }: Header, ownHost: string): never {
  refuseLine(
    line,
    `Singularity Hub was closed in 2021, and its archive is not a container registry: pull the image with 'apptainer pull base.sif shub://<name>', push it with 'apptainer push base.sif oras://${ownHost}/<repository>:<tag>', and build from it with 'Bootstrap: oras'`,
  );
}

/** What a base depends on, apart from its stage. */
interface BaseOptions {
  /** A registry that callers can push to. */
  readonly ownHost: string;
  /** True if the request has a build context. */
  readonly hasContext: boolean;
}

/** Returns the name of an image. Throws a `Fault` with the line of its header for an invalid name. */
function checkedImage(image: string, { line }: Header): string {
  try {
    parseReference(image);
    return image;
  } catch (error) {
    if (error instanceof OciSyntaxError) refuseLine(line, error.message);
    throw error;
  }
}

/** Returns a distribution that is built from its Docker image, with a warning. */
function insteadOf(what: string, { line }: Header, image: string): StageBase {
  return {
    image: checkedImage(image, { value: image, line }),
    packages: [],
    warning: `The definition file, line ${line}: ${what} is built from the Docker image of the same distribution, ${image}`,
  };
}

/** Returns the packages of `Include:`. Throws a `Fault` with the line for a name of another form. */
function includedPackages(headers: DefinitionStage['headers'], form: RegExp): readonly string[] {
  const include = headers.get('include');
  if (include === undefined) return [];
  const packages = include.value.split(/[\s,]+/).filter(name => name !== '');
  for (const name of packages) {
    if (!form.test(name)) {
      refuseLine(include.line, `${shownText(name)} is not the name of a package`);
    }
  }
  return packages;
}
