import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runTask } from '../../conda/threads/one-task.ts';
import { Fault } from '../../foundation/fault.ts';
import { type ProgramEnd, runLimited } from '../../foundation/limited-program.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import type { FoundInImage, FoundPackage } from '../found-in-image.ts';
import { addVulnerabilities } from '../scan-report.ts';
import type { ScannedComponent, ScannedImage, Scanner } from '../scanner.ts';
import {
  componentsFile,
  type ProgramKind,
  type ProgramRun,
  programKinds,
} from './program-kinds.ts';
import type { ReportLines, ReportOrder } from './report-worker.ts';

/** The operator's settings of a program that scans images. */
export interface ProgramSettings {
  readonly kind: ProgramKind;
  /** Absolute path of the program. */
  readonly path: string;
  /** Absolute path of the folder with its database. */
  readonly database: string;
  /** True if it downloads its database itself. */
  readonly updatesDatabase: boolean;
  /** PEM text of certificate authorities of the server that it reads images from, in addition to the public ones. */
  readonly ca: string | undefined;
  readonly memoryBytes: number;
}

interface ProgramOptions {
  /** A folder for the runs. Nothing else is in it. */
  readonly folder: string;
  readonly timeoutMs: number;
  /** Throws a `Fault` when the disk is full. */
  readonly requireSpace: () => void | Promise<void>;
  /** Variables with the proxies for other hosts, for a program that downloads its database. */
  readonly proxies: Readonly<Record<string, string>>;
}

// Databases are mapped into memory.
const spareAddresses = 16 * 1024 * 1024 * 1024;
const versionMs = 20_000;
const authorityFile = 'ca.pem';
const threadMiB = 512;
const linesAtOnce = 200;
// More than the setting allows.
const mostAtOnce = 1000;
/** Share of the memory at which a program written in Go collects garbage more often. */
const usualShare = 0.8;

/** Scans with Trivy or Grype as a program of this machine, in a process group of its own, with a home of its own and no secrets. */
export function createScannerProgram(settings: ProgramSettings, options: ProgramOptions): Scanner {
  const { path, database, updatesDatabase, ca, memoryBytes } = settings;
  const kind = programKinds[settings.kind];
  const { timeoutMs, requireSpace, proxies } = options;
  let known: { readonly stamp: string; readonly name: Promise<string> } | undefined;
  const closing = new AbortController();
  // Two that download the database would write to the same files.
  const turns = new Semaphore({ limit: updatesDatabase ? 1 : mostAtOnce });

  // What a killed server has left.
  const emptied = rm(options.folder, { recursive: true, force: true }).catch(() => {});

  const inFolder = async <T>(work: (folder: string) => Promise<T>): Promise<T> => {
    await emptied;
    const folder = join(options.folder, randomUUID());
    await mkdir(join(folder, 'home'), { recursive: true, mode: 0o700 });
    try {
      return await work(folder);
    } finally {
      await rm(folder, { recursive: true, force: true }).catch(() => {});
    }
  };

  const run = (
    folder: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    limits: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<ProgramEnd> =>
    runLimited({
      program: path,
      args,
      directory: folder,
      env: {
        HOME: join(folder, 'home'),
        TMPDIR: join(folder, 'home'),
        XDG_CACHE_HOME: join(folder, 'home'),
        PATH: '/nonexistent',
        LC_ALL: 'C',
        GOMEMLIMIT: String(Math.floor(memoryBytes * usualShare)),
        GOMAXPROCS: '2',
        ...(ca === undefined ? {} : { SSL_CERT_FILE: join(folder, authorityFile) }),
        ...env,
      },
      memoryBytes,
      spareAddresses,
      check: requireSpace,
      isPatient: true,
      ...limits,
    });

  const askName = (): Promise<string> =>
    inFolder(async folder => {
      // Its output could have any length: it goes to a file with a limit.
      const { code } = await runLimited({
        program: '/bin/sh',
        directory: folder,
        memoryBytes,
        spareAddresses,
        args: ['-c', 'exec "$0" "$@" > version.json', path, ...kind.versionArgs],
        env: { HOME: join(folder, 'home'), PATH: '/nonexistent' },
        timeoutMs: versionMs,
        maxFileBytes: 64 * 1024,
        signal: closing.signal,
      });
      if (code !== 0) {
        throw failed(`${kind.name} does not run: try it on the machine of the server`);
      }
      const text = await readFile(join(folder, 'version.json'), 'utf8');
      return `${kind.name} ${versionIn(text, kind.versionOf)}`.trim();
    });

  /** Returns name and version of the program: many scans may ask at once. They are read again when the program was replaced. */
  const nameOf = async (): Promise<string> => {
    const file = await stat(path).catch(() => undefined);
    if (!file) throw failed(`${kind.name} is not at the path of scans.program`);
    const stamp = `${file.ino} ${file.size} ${file.mtimeMs}`;
    if (known?.stamp !== stamp) {
      const asked = { stamp, name: askName() };
      known = asked;
      asked.name.catch(() => {
        if (known === asked) known = undefined;
      });
    }
    return known.name;
  };

  const scanTarget = async (target: Target, found: FoundInImage, signal: AbortSignal) => {
    await requireSpace();
    const { origin, name, secrets = [] } = 'name' in target ? target : {};
    const work = async (folder: string) => {
      const order: ProgramRun = {
        folder,
        database,
        updatesDatabase,
        timeoutMs,
        image: name,
        isPlainHttp: origin?.protocol === 'http:',
      };
      if (ca !== undefined) await writeFile(join(folder, authorityFile), ca);
      if ('components' in target) {
        await writeFile(join(folder, componentsFile), billOf(target.components));
      }
      await kind.prepare(order);
      const env = { ...kind.env(order), ...reachOf(origin, updatesDatabase, proxies) };
      const { end, code, output } = await run(folder, kind.args(order), env, {
        timeoutMs,
        signal,
      });
      if (end === 'too long') throw failed('It did not end in time', 'upstream-timeout');
      if (end === 'too large') {
        const most = Math.floor(memoryBytes / 1024 / 1024);
        throw failed(`${kind.name} requires more than ${most} MiB of memory for this image`);
      }
      if (code !== 0) {
        throw failed(
          kind.reasonIn(output) ??
            `${kind.name} failed: ${lastWords(output, [...secrets, folder, database, path])}`,
        );
      }
      await addReport({ kind: settings.kind, folder }, found, signal);
    };
    await turns.run(() => inFolder(work), { signal });
  };

  return {
    async describe() {
      const of = await kind.databaseOf(database).catch(() => undefined);
      if (of === undefined && !updatesDatabase) {
        throw failed(
          `${kind.name} has no database of vulnerabilities: its operator downloads it into the folder scans.database, see docs/scans.md`,
        );
      }
      return { name: await nameOf(), database: (of ?? '').slice(0, 100) };
    },

    async scan(image, found, signal) {
      const { origin, name } = addressOf(image);
      await scanTarget({ origin, name, secrets: [name, image.repository] }, found, signal);
    },

    async scanComponents(components, found, signal) {
      await scanTarget({ components }, found, signal);
    },

    async close() {
      closing.abort();
      await known?.name.catch(() => {});
    },
  };
}

/** What a program scans. */
type Target =
  | {
      /** Of the registry. */
      readonly origin: URL;
      readonly name: string;
      /** What messages must not show. */
      readonly secrets: readonly string[];
    }
  | { readonly components: readonly ScannedComponent[] };

/** Returns a bill of materials. Source: CycloneDX specification 1.6. */
function billOf(components: readonly ScannedComponent[]): string {
  const parts = components.map(one => ({ type: 'library', 'bom-ref': one.purl, ...one }));
  return JSON.stringify({
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'container', name: 'image' } },
    components: parts,
  });
}

/** Returns an image as the programs name it. */
function addressOf({ registry, repository, digest }: ScannedImage) {
  const origin = new URL(registry);
  return { origin, name: `${origin.host}/${repository}@${digest}` };
}

/** Returns the variables that keep a program from other hosts than its registry. */
function reachOf(
  origin: URL | undefined,
  updatesDatabase: boolean,
  proxies: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const nowhere = 'http://127.0.0.1:9';
  return {
    ...(updatesDatabase ? proxies : { HTTP_PROXY: nowhere, HTTPS_PROXY: nowhere }),
    NO_PROXY: origin?.hostname.replace(/^\[|\]$/g, '') ?? '',
  };
}

async function addReport(
  order: ReportOrder,
  found: FoundInImage,
  signal: AbortSignal,
): Promise<void> {
  const worker = new URL('./report-worker.ts', import.meta.url);
  const read = await runTask<ReportOrder, ReportLines>(worker, order, signal, threadMiB);
  const vulnerabilities: unknown[] = [];
  for await (const one of valuesIn(read.vulnerabilities)) vulnerabilities.push(one);
  await addVulnerabilities(vulnerabilities, found.vulnerabilities);
  found.packages ??= new Map();
  for await (const one of valuesIn(read.packages)) {
    const { purl, name, version } = one as FoundPackage;
    found.packages.set(purl ?? `${name}@${version}`, one as FoundPackage);
  }
}

/** Returns the values in lines of JSON, with pauses. */
async function* valuesIn(lines: Uint8Array): AsyncIterable<unknown> {
  let begin = 0;
  let count = 0;
  const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength);
  while (begin < bytes.length) {
    const newline = bytes.indexOf(10, begin);
    const end = newline < 0 ? bytes.length : newline;
    yield JSON.parse(bytes.toString('utf8', begin, end));
    begin = end + 1;
    count += 1;
    if (count % linesAtOnce === 0) await pauseTurn();
  }
}

function versionIn(
  text: string,
  versionOf: (output: Readonly<Record<string, unknown>>) => unknown,
): string {
  try {
    const version = versionOf(JSON.parse(text) as Readonly<Record<string, unknown>>);
    // A program that was not built by its makers has words in its place.
    return typeof version === 'string' && /^v?\d[\w.+-]{0,40}$/.test(version) ? version : '';
  } catch {
    return '';
  }
}

/** Returns the last line that a program wrote, without names of this server. */
function lastWords(output: string, places: readonly string[]): string {
  const lines = output.trim().split('\n');
  let words = lines.at(-1) ?? '';
  for (const place of places) words = words.replaceAll(place, '');
  return words.trim().slice(0, 300) || 'it said nothing';
}

function failed(what: string, kind: 'upstream' | 'upstream-timeout' = 'upstream'): Fault {
  return new Fault(kind, what, { phase: 'upstream' });
}
