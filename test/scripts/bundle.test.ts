/** The bundle that `npm ci` makes: how much a start of the server loads, and the size of the packages that stay beside it. */
import assert from 'node:assert/strict';
import { globSync, lstatSync, readFileSync, symlinkSync } from 'node:fs';
import { cp, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import {
  bundledPackages,
  bundleName,
  makeBundle,
  sourcesName,
  unbundled,
} from '../../scripts/bundle.ts';
import { startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { project, runWell } from './installed.ts';

// The sources and their packages are 1,400 modules.
const mostModules = 220;
const mostBytes = 6_500_000;
const mostInstalledBytes = 150_000_000;

// Packages that only some servers need, or none at its start.
const late =
  /^(?:@aws-sdk|@opentelemetry\/(?!api\/)|@grpc|pg\/|@cyclonedx|@smithy|swagger|undici|tldts)/;

suite('bundle', () => {
  let directory: TempDir;

  before(async () => {
    directory = await makeTempDir('bundle');
    // The bundle of the project may be older than its sources, and servers of other tests use it.
    for (const name of ['src', 'scripts', 'test', 'docs', 'node_modules', 'package.json']) {
      symlinkSync(join(project, name), directory.join(name));
    }
    symlinkSync(join(project, 'package-lock.json'), directory.join('package-lock.json'));
    await cp(join(project, 'bin'), directory.join('bin'), { recursive: true });
    await makeBundle(directory.join('.'));
  });
  after(() => directory?.remove());

  /** Returns a command that notes the addresses of the files that its main thread loads, and reads them. */
  async function noting(args: readonly string[], options: readonly string[] = []) {
    const list = directory.join('loaded');
    const hook = directory.join('hook.mjs');
    await rm(list, { force: true });
    await writeFile(
      hook,
      `import { appendFileSync } from 'node:fs';
       import { registerHooks } from 'node:module';
       import { isMainThread } from 'node:worker_threads';
       if (isMainThread) registerHooks({ load(url, context, next) {
         if (url.startsWith('file:')) appendFileSync(${JSON.stringify(list)}, url + '\\n');
         return next(url, context);
       } });`,
    );
    const program = directory.join('bin/sluice.js');
    return {
      command: [
        ...[process.execPath, ...options, '--import', pathToFileURL(hook).href, program],
        ...args,
      ],
      loaded: () => readFileSync(list, 'utf8').trim().split('\n'),
    };
  }

  test('a start loads few files, and no package that only some servers need', async () => {
    // A server with source maps loads the parts; without, the same modules from one file.
    const { command, loaded } = await noting(['serve'], ['--enable-source-maps']);
    const registry = '127.0.0.1:1';
    const config = { registries: { [registry]: { plainHttp: true } } };
    await using sluice = await startSluice({ command, config });
    const files = loaded();
    assert.ok(files.length < mostModules, `${files.length} files`);
    const chunks = files.filter(url => url.includes(`/${bundleName}/`));
    const texts = chunks.map(url => readFileSync(new URL(url), 'utf8'));
    const bytes = texts.reduce((sum, text) => sum + text.length, 0);
    assert.ok(bytes < mostBytes, `${bytes} bytes`);
    // esbuild writes the path of each module above its code.
    const packages = texts
      .flatMap(text => [...text.matchAll(/^\/\/ node_modules\/(.*)$/gm)])
      .map(([, path = '']) => path);
    assert.ok(packages.length > 100);
    assert.deepEqual(
      packages.filter(path => late.test(path)),
      [],
    );
    // The first request to a registry loads its client.
    const response = await fetch(`${sluice.url}/v1alpha1/inspect`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ containerImage: `${registry}/team/app:1` }),
    });
    assert.match(await response.text(), /refused the connection/);
    assert.ok(loaded().some(url => url.endsWith('/undici.cjs')));
  });

  test('a server runs one file, with the code that the last one compiled if it is complete', async () => {
    const { command, loaded } = await noting(['serve']);
    const compiled = directory.join('compiled');
    const folder = () => globSync('*/server-*.code', { cwd: compiled });
    const pageOf = async () => {
      const env = { NODE_COMPILE_CACHE: compiled };
      await using sluice = await startSluice({ command, env });
      const response = await sluice.fetch('/', { headers: { accept: 'text/html' } });
      return (await response.text()).replace(/nonce="[^"]*"/g, '');
    };
    const page = await pageOf();
    assert.match(page, /^<!doctype html>/i);
    assert.ok(!loaded().some(url => url.includes(`/${bundleName}/main`)));
    const file = join(compiled, folder()[0] ?? '');
    const code = await readFile(file);
    const { ino } = await stat(file);
    assert.equal(await pageOf(), page);
    // The code is made only where none was used.
    assert.equal((await stat(file)).ino, ino);
    const old = join(dirname(file), 'server-0.code');
    await writeFile(old, 'of an earlier bundle');
    await utimes(old, 0, 0);
    // V8 would run what damaged code says.
    for (const damaged of [code.subarray(0, code.length / 2), flipped(code), Buffer.alloc(2)]) {
      await writeFile(file, damaged);
      assert.equal(await pageOf(), page);
      assert.ok(!(await readFile(file)).equals(damaged));
    }
    assert.equal(folder().length, 1);
  });

  test('every file of the bundle is valid JavaScript', async () => {
    const check = `
      import { globSync, readFileSync } from 'node:fs';
      import { SourceTextModule } from 'node:vm';
      const files = globSync('*.js');
      for (const identifier of files) new SourceTextModule(readFileSync(identifier, 'utf8'), { identifier });
      console.log(files.filter(it => it.endsWith('-worker.js')).length);`;
    const options = ['--experimental-vm-modules', '--no-warnings', '--input-type=module'];
    const command = [process.execPath, ...options, '--eval', check];
    const threads = globSync('src/**/*-worker.ts', { cwd: project });
    assert.equal(Number(await runWell(command, directory.join(bundleName))), threads.length);
  });

  test('after a change of a source file, the sources run', async () => {
    const ranSources = async () => {
      const { command, loaded } = await noting(['--version']);
      await runWell(command, project);
      return loaded().some(url => url.endsWith('/src/cli/main.ts'));
    };
    assert.equal(await ranSources(), false);
    const file = directory.join(bundleName, sourcesName);
    const [[path, time, size], ...others] = JSON.parse(readFileSync(file, 'utf8'));
    await writeFile(file, JSON.stringify([[path, time, size + 1], ...others]));
    assert.equal(await ranSources(), true);
  });
});

/** Returns the bytes with one changed bit in the middle. */
function flipped(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  const at = bytes.length >> 1;
  copy.writeUInt8(copy.readUInt8(at) ^ 1, at);
  return copy;
}

test('what npm ci --omit=dev leaves is below 150 MB', () => {
  const { packages } = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, unknown>>;
  };
  const removed = new Set(bundledPackages());
  const kept = Object.keys(packages).filter(folder => folder !== '' && !removed.has(folder));
  for (const name of unbundled) assert.ok(kept.includes(`node_modules/${name}`), name);
  const bytes = kept
    .map(folder => join(project, folder))
    .flatMap(cwd => globSync('**', { cwd }).map(path => join(cwd, path)))
    .reduce((sum, path) => sum + lstatSync(path).blocks * 512, 0);
  // Without the version of Node that npm brings along, it would prove nothing.
  assert.ok(bytes > 100_000_000, `${bytes} bytes`);
  assert.ok(bytes < mostInstalledBytes, `${bytes} bytes`);
});
