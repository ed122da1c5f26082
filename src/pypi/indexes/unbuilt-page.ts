import { createHash } from 'node:crypto';
import { projectVersion } from '../project-version.ts';
import { projectName } from '../wheel-file.ts';

/** A page of a project, and its wheels. */
export interface UnbuiltPage {
  readonly page: Uint8Array;
  /** Names of the files. */
  readonly wheels: readonly string[];
}

/** Larger ones are not read: the event loop would wait for them. */
const maxBytes = 2 * 1024 * 1024;

interface PageFile {
  readonly filename: string;
  readonly [field: string]: unknown;
}

/**
 * Returns a page of the index on which each source distribution also stands as a wheel that requires nothing, so that a solve goes on and
 * shows which versions must be built; undefined for a large page.
 */
export function unbuiltPage(page: Uint8Array, project: string): UnbuiltPage | undefined {
  if (page.length > maxBytes) return undefined;
  const text = Buffer.from(page.buffer, page.byteOffset, page.length).toString();
  const read = JSON.parse(text) as { files: PageFile[] };
  const wheels = read.files.map(({ filename }) => filename).filter(name => name.endsWith('.whl'));
  const names = new Set(wheels);
  const unbuilt = read.files.flatMap(file => {
    const version = versionOfSource(file.filename, project);
    if (version === undefined) return [];
    const filename = `${project.replaceAll('-', '_')}-${version}-py3-none-any.whl`;
    if (names.has(filename)) return [];
    names.add(filename);
    return [
      {
        ...file,
        filename,
        url: `../../unbuilt/${encodeURIComponent(version)}/${encodeURIComponent(filename)}`,
        hashes: { sha256: createHash('sha256').update(filename).digest('hex') },
        size: undefined,
        'core-metadata': true,
      },
    ];
  });
  return {
    page: Buffer.from(JSON.stringify({ ...read, files: [...read.files, ...unbuilt] })),
    wheels,
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
