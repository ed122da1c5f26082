import type { RecipeRequest } from '../recipe-kind.ts';
import type { SubmittedCranOptions, SubmittedPackages } from '../submitted.ts';
import { sortedOnce } from '../text/canonical-document.ts';
import { commandLine, imageName } from '../text/recipe-field.ts';
import {
  base64Text,
  hasCredentials,
  oneLine,
  plainUrl,
  refuse,
  shown,
} from '../text/text-field.ts';

/** R packages, checked and normalised. */
export interface CranSource {
  readonly kind: 'cran';
  readonly wanted: CranPackages | RenvLock;
  /** Addresses of repositories in order of priority; empty for those that the image has set. */
  readonly repositories: readonly string[];
  readonly options: CranOptions;
}

/** Packages that are solved when the image is built. */
interface CranPackages {
  readonly form: 'packages';
  /** As renv names them: `name`, `name@version`, `bioc::name`; in order, each once. */
  readonly packages: readonly string[];
}

/** A lock file of renv. */
interface RenvLock {
  readonly form: 'lock';
  /** JSON without blanks. */
  readonly text: string;
}

export interface CranOptions {
  /** Full name of an image with R, a compiler for packages that have no binary form, and apt-get for base packages. */
  readonly rImage: string;
  /** Debian packages. */
  readonly basePackages: readonly string[];
  /** Lines of a Dockerfile. */
  readonly commands: readonly string[];
}

// The image of the reference service, whose R has repositories with binary packages.
const usualImage = 'rocker/r-ver';
const usualVersion = '4.4.1';
/** Clients of the reference service send these without being asked to: its recipe, not this one, runs their scripts. */
const unusedPackages = ['littler', 'r-cran-docopt'];

/**
 * Reads the R packages of a request; undefined for a request for something else. Throws a `Fault` (400). Source: reference
 * service, `packages` of the type `CRAN`.
 */
export function readCran({ submitted }: RecipeRequest): CranSource | undefined {
  const { packages, containerFile, condaFile } = submitted;
  if (containerFile !== undefined || condaFile !== undefined) return undefined;
  if (packages?.type?.toUpperCase() !== 'CRAN') return undefined;
  const { environment, entries = [], channels = [], cranOpts = {}, pipOpts = {} } = packages;
  if (environment !== undefined && entries.length > 0) {
    refuse("'packages.environment' and 'packages.entries' exclude each other: send one of the two");
  }
  if (environment === undefined && entries.length === 0) {
    refuse(
      "'packages' does not name a package: list R packages in 'packages.entries', or send a renv.lock as 'packages.environment'",
    );
  }
  if ((pipOpts.extras ?? []).length + (pipOpts.groups ?? []).length > 0) {
    refuse(
      "'packages.pipOpts' selects parts of a Python project, and a request for R packages has none: leave it out",
    );
  }
  const lock = environment === undefined ? undefined : readLock(environment);
  return {
    kind: 'cran',
    wanted: lock?.wanted ?? { form: 'packages', packages: sortedOnce(entries.map(readEntry)) },
    repositories: channels.map((channel, position) =>
      readRepository(`packages.channels[${position}]`, channel),
    ),
    options: readOptions(cranOpts, lock?.version ?? usualVersion),
  };
}

const nameForm = /^[A-Za-z][A-Za-z0-9.]*[A-Za-z0-9]$/;
const versionForm = /^\d+(?:[.-]\d+)+$/;
const entryForm = /^(bioc::)?([A-Za-z][A-Za-z0-9.]*[A-Za-z0-9])(?:(?:@|==?)(\d+(?:[.-]\d+)+))?$/;

/**
 * Returns an entry as renv writes it. Versions may follow `@`, `=` or `==`. Source: Writing R Extensions, The DESCRIPTION
 * file.
 */
function readEntry(entry: string, position: number): string {
  const field = `packages.entries[${position}]`;
  const line = oneLine(field, entry);
  const [, source = '', name, version] = entryForm.exec(line) ?? [];
  if (name === undefined) {
    refuse(
      `'${field}': ${shown(line)} is not an R package: write NAME, NAME@VERSION or bioc::NAME. For other sources, lock them with renv and send the renv.lock as 'packages.environment'`,
    );
  }
  return `${source}${name}${version === undefined ? '' : `@${version}`}`;
}

/** Returns the parts of an entry as renv writes it. */
export function partsOfEntry(entry: string) {
  const isOfBioconductor = entry.startsWith('bioc::');
  const [name = '', version] = entry.replace(/^bioc::/, '').split('@');
  return { name, version, isOfBioconductor };
}

/**
 * Returns the Conda packages of the same names; undefined for a request for other packages, and for a lock file. Source:
 * conda-forge and bioconda, naming of R packages.
 */
export function condaTwins({ type, entries = [] }: SubmittedPackages): string[] | undefined {
  if (type?.toUpperCase() !== 'CRAN' || entries.length === 0) return undefined;
  return sortedOnce(entries.map(readEntry)).map(entry => {
    const { name, version, isOfBioconductor } = partsOfEntry(entry);
    const prefix = isOfBioconductor ? 'bioconductor-' : 'r-';
    // A hyphen separates the version of a Conda package from its build.
    const pin = version === undefined ? '' : `=${version.replaceAll('-', '_')}`;
    return `${prefix}${name.toLowerCase()}${pin}`;
  });
}

/** Returns the address of a repository of packages, without a slash at its end. */
function readRepository(field: string, text: string): string {
  return plainUrl(field, text, ['https', 'http']).replace(/\/$/, '');
}

const mostLocked = 5000;

/** Reads a lock file of renv, and the version of R in it. Source: renv, Lockfiles. */
function readLock(base64: string): { readonly wanted: RenvLock; readonly version?: string } {
  const field = 'packages.environment';
  const lock = parse(field, base64Text(field, base64).replace(/^\ufeff/, ''));
  const r = recordIn(lock, 'R');
  const packages = recordIn(lock, 'Packages');
  if (!r || !packages) {
    refuse(
      `'${field}' is not a renv.lock, which is a JSON object with 'R' and 'Packages': make it with renv::snapshot()`,
    );
  }
  const names = Object.keys(packages);
  if (names.length === 0) refuse(`'${field}' locks no package: add one, or leave it out`);
  if (names.length > mostLocked) {
    refuse(`'${field}' locks more than ${mostLocked} packages: split the environment`);
  }
  for (const name of names) {
    if (!nameForm.test(name)) {
      refuse(`'${field}': ${shown(name)} is not the name of an R package`);
    }
    const isSecret = Object.values(recordIn(packages, name) ?? {}).some(
      value => typeof value === 'string' && hasCredentials(value),
    );
    if (isSecret) {
      refuse(
        `'${field}: Packages.${name}' contains credentials in an address: recipes and logs are not secret, so remove them`,
      );
    }
  }
  const { Repositories: repositories = [] } = r;
  if (!Array.isArray(repositories)) refuse(`'${field}': 'R.Repositories' is not a list`);
  for (const [position, repository] of repositories.entries()) {
    const url: unknown = repository?.URL;
    readRepository(`${field}: R.Repositories[${position}]`, typeof url === 'string' ? url : '');
  }
  const { Version: version } = r;
  const isVersion = typeof version === 'string' && versionForm.test(version);
  return {
    wanted: { form: 'lock', text: JSON.stringify(lock) },
    ...(isVersion ? { version } : {}),
  };
}

function parse(field: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    refuse(
      `'${field}' is not JSON: for packages of type CRAN it is a renv.lock, which renv::snapshot() makes`,
    );
  }
}

function recordIn(value: unknown, member: string): Record<string, unknown> | undefined {
  const found = (value as Record<string, unknown> | null)?.[member];
  if (typeof found !== 'object' || found === null || Array.isArray(found)) return undefined;
  return found as Record<string, unknown>;
}

const debianPackage = /^[a-z0-9][a-z0-9.+-]+(?:=[A-Za-z0-9.+:~-]+)?$/;

function readOptions(
  { rImage, basePackages = '', commands = [] }: SubmittedCranOptions,
  version: string,
): CranOptions {
  const field = 'packages.cranOpts';
  const words = basePackages.split(/\s+/).filter(word => word !== '');
  for (const word of words) {
    if (!debianPackage.test(word)) {
      refuse(`'${field}.basePackages': ${shown(word)} is not the name of a Debian package`);
    }
  }
  return {
    rImage: imageName(`${field}.rImage`, rImage ?? `${usualImage}:${version}`),
    basePackages: sortedOnce(words.filter(word => !unusedPackages.includes(word))),
    commands: commands.map((command, position) =>
      commandLine(`${field}.commands[${position}]`, command),
    ),
  };
}
