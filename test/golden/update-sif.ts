/** Translates every definition file of `test/golden/sif`: `npx node test/golden/update-sif.ts`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { definitionNames, sifFolder, translated } from './translated.ts';

for (const name of definitionNames()) {
  for (const [file, text] of translated(name)) writeFileSync(join(sifFolder, file), text);
}
