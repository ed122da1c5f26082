import { createHash } from 'node:crypto';
import { projectVersion } from '../project-version.ts';
import { type BuiltWheel, projectName, type SourceFile } from '../wheel-file.ts';

/** A page of a project, and its files. */
export interface UnbuiltPage {
  readonly page: Uint8Array;
  /** Names of the wheels. */
  readonly wheels: readonly string[];
  /** The source distribution of each version; the address is that of the page. */
  readonly sources: ReadonlyMap<string, SourceFile>;
}

/** Larger ones are not read: the event loop would wait for them. */
const maxBytes = 2 * 1024 * 1024;

interface PageFile {
  readonly filename: string;
  readonly url: string;
  readonly hashes: { readonly sha256?: string };
  readonly size?: number;
  readonly [field: string]: unknown;
}

/**
 * Returns a page of the index on which each source distribution also stands as a wheel, so that a solve goes on: the one that was built
 * of it, and otherwise one that requires nothing, which shows that the version must be built. Undefined for a large page.
 */
export function unbuiltPage(
  page: Uint8Array,
  project: string,
  built: readonly BuiltWheel[] = [],
): UnbuiltPage | undefined {
  if (page.length > maxBytes) return undefined;
  const text = Buffer.from(page.buffer, page.byteOffset, page.length).toString();
  const read = JSON.parse(text) as { files: PageFile[] };
  const wheels = read.files.map(({ filename }) => filename).filter(name => name.endsWith('.whl'));
  const names = new Set(wheels);
  const sources = new Map<string, SourceFile>();
  const madeOf = new Map(built.map(one => [projectVersion(one.version), one]));
  const added = read.files.flatMap(file => {
    const written = versionOfSource(file.filename, project);
    const version = written === undefined ? undefined : projectVersion(written);
    if (written === undefined || version === undefined) return [];
    const { filename: fileName, url, size, hashes } = file;
    const source = { fileName, url, size, sha256: hashes.sha256 ?? '' };
    // pip prefers .tar.gz, of which each version has one at most.
    const isBetter = !sources.has(version) || fileName.endsWith('.tar.gz');
    if (hashes.sha256 !== undefined && isBetter) sources.set(version, source);
    const made = madeOf.get(version);
    // A stand-in of the other archive of the version could have the name of the wheel, or come before it.
    if (made !== undefined && made.source?.fileName !== fileName) return [];
    const filename =
      made?.fileName ?? `${project.replaceAll('-', '_')}-${written}-py3-none-any.whl`;
    if (names.has(filename)) return [];
    names.add(filename);
    const folder = made ? 'built' : 'unbuilt';
    return [
      {
        ...file,
        filename,
        url: `../../${folder}/${encodeURIComponent(written)}/${encodeURIComponent(filename)}`,
        hashes: { sha256: made?.sha256 ?? createHash('sha256').update(filename).digest('hex') },
        size: made?.size,
        'core-metadata': true,
      },
    ];
  });
  return {
    page: Buffer.from(JSON.stringify({ ...read, files: [...read.files, ...added] })),
    wheels,
    sources,
  };
}

/** Returns the version in the name of a source distribution; undefined for another file. */
function versionOfSource(fileName: string, project: string): string | undefined {
  const [, base = ''] = /^(.*)\.(?:tar\.gz|zip)$/.exec(fileName) ?? [];
  const at = base.lastIndexOf('-');
  if (at < 0 || projectName(base.slice(0, at)) !== project) return undefined;
  const version = base.slice(at + 1);
  return projectVersion(version) === undefined ? undefined : version;
}
