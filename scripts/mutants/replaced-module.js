/**
 * Gives Node another text for one module of the project: MUTANT_FILE is the path of the module, MUTANT_TEXT that of a
 * file with its text. The sources stay as they are, so that several mutants can run at the same time.
 */
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

const { MUTANT_FILE = '', MUTANT_TEXT = '' } = process.env;
const replaced = pathToFileURL(MUTANT_FILE).href;

registerHooks({
  load(url, context, next) {
    if (url !== replaced) return next(url, context);
    const source = readFileSync(MUTANT_TEXT, 'utf8');
    return { format: 'module-typescript', source, shortCircuit: true };
  },
});
