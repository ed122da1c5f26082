/**
 * Resolves the imports of this project's own files, which name files, without looking for them on the disk. Node would
 * for each of several thousand imports: a start takes a fifth less processor time. In effect once it is imported.
 */
import { isBuiltin, registerHooks } from 'node:module';

const project = new URL('../', import.meta.url).href;
const formats = { '.ts': 'module-typescript', '.js': 'module' };

registerHooks({
  resolve(specifier, context, next) {
    if (specifier.startsWith('node:') && isBuiltin(specifier)) {
      return { url: specifier, format: 'builtin', shortCircuit: true };
    }
    const format = formats[specifier.slice(-3)];
    if (!format || !specifier.startsWith('.') || !isOwn(context.parentURL)) {
      return next(specifier, context);
    }
    return { url: new URL(specifier, context.parentURL).href, format, shortCircuit: true };
  },
});

/** Returns true for the address of a file of the project, false for those of its packages. */
function isOwn(url) {
  return url?.startsWith(project) && !url.startsWith('node_modules/', project.length);
}
