/**
 * Writes the result of augmentation for every case: `npx node test/golden/update.ts`. A case without a folder gets its base
 * from the corpus; an existing base stays. Check the difference before you commit it: digests of served images must be
 * stable.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bytesOf } from '../corpus/content.ts';
import { makeImage } from '../corpus/corpus.ts';
import { augmented, type GoldenBase } from './augmented.ts';
import { cases, type GoldenCase } from './cases.ts';

const root = join(import.meta.dirname, 'augment');

for (const [name, golden] of Object.entries(cases)) {
  const folder = join(root, name);
  if (!existsSync(folder)) await writeBase(folder, golden);
  const base = JSON.parse(readFileSync(join(folder, 'base.json'), 'utf8')) as GoldenBase;
  const { result, files } = augmented(base, file => readFileSync(join(folder, 'base', file)));
  rmSync(join(folder, 'expected'), { recursive: true, force: true });
  mkdirSync(join(folder, 'expected'));
  for (const [file, bytes] of files) writeFileSync(join(folder, 'expected', file), bytes);
  writeFileSync(join(folder, 'expected.json'), pretty(result));
}

async function writeBase(folder: string, { image: name, change }: GoldenCase): Promise<void> {
  const image = await makeImage(name);
  const gone = new Set((image.gone ?? []).map(({ digest }) => digest));
  const documents = [image.root, ...image.children, ...image.blobs].filter(
    ({ mediaType, digest }) => mediaType.endsWith('json') && !gone.has(digest),
  );
  mkdirSync(join(folder, 'base'), { recursive: true });
  const listed = documents.map((content, position) => {
    const file = `${position}.json`;
    writeFileSync(join(folder, 'base', file), bytesOf(content));
    return { file, mediaType: content.mediaType, digest: content.digest };
  });
  writeFileSync(join(folder, 'base.json'), pretty({ change, documents: listed }));
}

function pretty(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
