import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { Asset } from '../frame/assets.ts';

/** A file that the pages load after their first view. */
export interface DocsAsset extends Asset {
  readonly name: string;
}

const script = 'text/javascript; charset=utf-8';
const styles = 'text/css; charset=utf-8';

/** Reads the library and what it wears here. `scripts/generate.ts` stores the library compressed with gzip. */
export function readDocsAssets() {
  const kept = (name: string) => readFileSync(new URL(`swagger/${name}`, import.meta.url));
  return {
    library: asset('swagger-ui', 'js', script, kept('swagger-ui.js.gz')),
    libraryStyle: asset('swagger-ui', 'css', styles, kept('swagger-ui.css.gz')),
    theme: asset('theme', 'css', styles, gzipSync(kept('theme.css'), { level: 9 })),
  };
}

export type DocsAssets = ReturnType<typeof readDocsAssets>;

function asset(name: string, extension: string, type: string, packed: Buffer): DocsAsset {
  const digest = createHash('sha256').update(packed).digest('hex').slice(0, 16);
  return {
    name: `${name}-${digest}.${extension}`,
    type,
    packed,
    plain: () => gunzipSync(packed),
  };
}
