import type { CondaPackage } from '../conda-package.ts';

// They become parts of paths and of addresses. Source: CEP 26, and conda, Package naming conventions.
const part = /^[A-Za-z0-9_][A-Za-z0-9_.+!~-]*$/;
const fileName = /^[A-Za-z0-9_][A-Za-z0-9_.+!~-]*\.(?:conda|tar\.bz2)$/;
const longest = 200;

/** Returns true when the names in a package can be parts of paths: a channel can write anything into its data. */
export function hasPlainNames(it: Pick<CondaPackage, 'name' | 'version' | 'build' | 'fileName'>) {
  return (
    [it.name, it.version, it.build].every(text => part.test(text) && text.length <= longest) &&
    fileName.test(it.fileName) &&
    it.fileName.length <= longest
  );
}
