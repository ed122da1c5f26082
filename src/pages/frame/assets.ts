import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

/** A file that pages load. Its address contains its digest. */
export interface Asset {
  readonly type: string;
  readonly packed: Buffer;
  /** Returns the file for clients that do not accept gzip. */
  plain(): Buffer;
}

/** The scripts, the style sheet and the logo of the pages. */
export interface Assets {
  /** Path of the folder with all of them. It contains their digest, so that browsers keep them for good. */
  readonly base: string;
  find(digest: string, name: string): Asset | undefined;
}

export const assetsPath = '/view/assets';
const room = new URL('../', import.meta.url);

/** Reads the files. All parts of the style sheet become one, in the order of their names. */
export function readAssets(): Assets {
  const read = (folder: string, ending: string) =>
    readdirSync(new URL(folder, room))
      .filter(name => name.endsWith(ending))
      .sort()
      .map(name => [name, readFileSync(new URL(`${folder}/${name}`, room))] as const);
  const style = Buffer.concat(read('styles', '.css').map(([, bytes]) => bytes));
  const files = new Map<string, Asset>([
    ['style.css', asset('text/css; charset=utf-8', style)],
    ...read('styles', '.svg').map(
      ([name, bytes]) => [name, asset('image/svg+xml', bytes)] as const,
    ),
    ...read('browser', '.js').map(
      ([name, bytes]) => [name, asset('text/javascript; charset=utf-8', bytes)] as const,
    ),
  ]);
  const hash = createHash('sha256');
  for (const [name, { plain }] of files) {
    hash.update(`${name} ${plain().length}\n`).update(plain());
  }
  const digest = hash.digest('hex').slice(0, 16);
  return {
    base: `${assetsPath}/${digest}`,
    find: (wanted, name) => (wanted === digest ? files.get(name) : undefined),
  };
}

function asset(type: string, plain: Buffer): Asset {
  return { type, plain: () => plain, packed: gzipSync(plain, { level: 9 }) };
}
