/**
 * Runs the bundle for servers, which is one file, with code that an earlier start compiled. Node's compile cache has the functions that
 * run while a file is loaded; this one also those that are called later: a start takes a third less processor time.
 */
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire, getCompileCacheDir } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, Script } from 'node:vm';
import { crc32 } from 'node:zlib';

const checkBytes = 4;
const keptMs = 24 * 3_600_000;

/** Returns what the file exports. Its code is kept when this process ends, if there was none. */
export function loadOneFile(url) {
  const filename = fileURLToPath(url);
  const bytes = readFileSync(filename);
  // V8 compares no more than the length of the source.
  const kept = keptFile(crc32(bytes).toString(16));
  const script = new Script(wrapped(bytes.latin1Slice()), {
    filename,
    cachedData: kept && readKept(kept),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  // Without code to read, this property is undefined.
  if (kept && script.cachedDataRejected !== false) {
    process.once('exit', () => keep(kept, script.createCachedData()));
  }
  const module = { exports: {} };
  const run = script.runInThisContext();
  run(module, module.exports, createRequire(url), url, dirname(filename));
  return module.exports;
}

// The last two names are what `scripts/bundle.ts` puts in place of those of `import.meta`.
const wrapped = source =>
  `(function (module, exports, require, bundleUrl, bundleFolder) {${source}\n})`;

/** Returns the path of the code; undefined if compiled code is not kept. The folder is one for each version of V8, its flags and user. */
function keptFile(hash) {
  const folder = getCompileCacheDir();
  return folder === undefined ? undefined : join(folder, `server-${hash}.code`);
}

/** Returns code that is complete, without its check; undefined if there is none. V8 does not notice that bytes have changed. */
function readKept(path) {
  try {
    const bytes = readFileSync(path);
    const code = bytes.subarray(checkBytes);
    return bytes.readUInt32LE() === crc32(code) ? code : undefined;
  } catch {
    return undefined;
  }
}

function keep(path, code) {
  const draft = `${path}.${process.pid}`;
  const check = Buffer.alloc(checkBytes);
  check.writeUInt32LE(crc32(code));
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(draft, Buffer.concat([check, code]), { mode: 0o600 });
    renameSync(draft, path);
    removeOld(dirname(path));
  } catch {
    // In a read-only folder, each start compiles again.
    rmSync(draft, { force: true });
  }
}

/** Removes the code of earlier bundles, and drafts of processes that were killed. What is still used is made again. */
function removeOld(folder) {
  for (const name of readdirSync(folder)) {
    if (!/^server-.*\.code/.test(name)) continue;
    const path = join(folder, name);
    if (statSync(path).mtimeMs < Date.now() - keptMs) rmSync(path, { force: true });
  }
}
