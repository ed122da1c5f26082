import { mkdir, readFile, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Programs that scan images. */
export type ProgramKind = 'trivy' | 'grype';

/** What one run of a program gets. */
export interface ProgramRun {
  /** An empty folder of its own. */
  readonly folder: string;
  /** Folder of the database. */
  readonly database: string;
  readonly updatesDatabase: boolean;
  /** Name of the image, with the host of its registry; undefined for components, which are in {@link componentsFile}. */
  readonly image: string | undefined;
  readonly isPlainHttp: boolean;
  readonly timeoutMs: number;
}

interface Kind {
  readonly name: string;
  readonly versionArgs: readonly string[];
  /** Returns the version in the output of the program; undefined for a build without one. */
  versionOf(output: Readonly<Record<string, unknown>>): unknown;
  /** Returns what the database is of; undefined without a database. */
  databaseOf(folder: string): Promise<string | undefined>;
  /** Returns the reason of a failure and what to do, of output that does not say so itself. */
  reasonIn(output: string): string | undefined;
  prepare(run: ProgramRun): Promise<void>;
  args(run: ProgramRun): readonly string[];
  env(run: ProgramRun): Readonly<Record<string, string>>;
}

/** Name of the file with the report, in the folder of a run. */
export const reportFile = 'report.json';
/** Name of the file with the components to scan, as CycloneDX. */
export const componentsFile = 'components.cdx.json';
/** Name of the file with the packages, where they are not in the report. */
export const billFile = 'bill.json';

const mostTextBytes = 64 * 1024;

const trivy: Kind = {
  name: 'Trivy',
  versionArgs: ['version', '--format', 'json', '--cache-dir', '.'],
  versionOf: ({ Version }) => Version,
  async databaseOf(folder) {
    const about = await readSmall(join(folder, 'db/metadata.json'));
    return about && String((JSON.parse(about) as { UpdatedAt?: unknown }).UpdatedAt ?? '');
  },
  reasonIn: output =>
    output.includes('Unable to initialize the Java DB')
      ? 'The image has Java archives, and Trivy has no database for Java: its operator downloads it into the folder scans.database with --download-java-db-only, see docs/scans.md'
      : undefined,
  async prepare({ folder, database, updatesDatabase }) {
    if (updatesDatabase) return;
    // It writes to its cache, and the database may be for reading only.
    await mkdir(join(folder, 'cache'));
    for (const name of ['db', 'java-db']) {
      await symlink(join(database, name), join(folder, 'cache', name));
    }
  },
  args: ({ folder, database, updatesDatabase, image, timeoutMs }) => [
    ...(image === undefined ? ['sbom'] : ['image', '--image-src', 'remote']),
    ...['--scanners', 'vuln', '--list-all-pkgs'],
    ...['--format', 'json', '--output', reportFile, '--no-progress', '--quiet'],
    ...['--cache-dir', updatesDatabase ? database : join(folder, 'cache')],
    ...['--cache-backend', 'memory', '--skip-version-check', '--disable-telemetry'],
    ...(updatesDatabase ? [] : ['--skip-db-update', '--skip-java-db-update']),
    ...['--offline-scan', '--skip-vex-repo-update'],
    ...['--timeout', `${Math.ceil(timeoutMs / 1000)}s`],
    image ?? componentsFile,
  ],
  env: ({ isPlainHttp }) => ({ TRIVY_NON_SSL: String(isPlainHttp) }),
};

const grype: Kind = {
  name: 'Grype',
  versionArgs: ['version', '--output', 'json'],
  versionOf: ({ version }) => version,
  async databaseOf(folder) {
    const about = await readSmall(join(folder, '6/import.json'));
    const file = await stat(join(folder, '6/vulnerability.db')).catch(() => undefined);
    if (about === undefined || !file) return undefined;
    const { digest } = JSON.parse(about) as { digest?: unknown };
    return `${file.mtime.toISOString()} ${String(digest ?? '')}`;
  },
  reasonIn: () => undefined,
  prepare: async () => {},
  args: ({ image }) => [
    ...(image === undefined
      ? [`sbom:${componentsFile}`, '--add-cpes-if-none']
      : [`registry:${image}`]),
    ...['--output', `json=${reportFile}`, '--output', `cyclonedx-json=${billFile}`, '--quiet'],
  ],
  env: ({ database, updatesDatabase, isPlainHttp }) => ({
    GRYPE_DB_CACHE_DIR: database,
    GRYPE_DB_AUTO_UPDATE: String(updatesDatabase),
    // They are checked where the database is updated. Reading all of it for each image takes longer than the scan.
    GRYPE_DB_VALIDATE_AGE: 'false',
    GRYPE_DB_VALIDATE_BY_HASH_ON_START: 'false',
    GRYPE_CHECK_FOR_APP_UPDATE: 'false',
    GRYPE_REGISTRY_INSECURE_USE_HTTP: String(isPlainHttp),
  }),
};

export const programKinds: Readonly<Record<ProgramKind, Kind>> = { trivy, grype };

/** Returns the text of a small file; undefined without the file. */
async function readSmall(path: string): Promise<string | undefined> {
  const { size } = (await stat(path).catch(() => undefined)) ?? {};
  if (size === undefined || size > mostTextBytes) return undefined;
  return readFile(path, 'utf8');
}
