/** Rattler, the engine of pixi, installs a package of each odd shape: our layers add up to the same tree. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type JudgedEnvironment, judge } from './judged.ts';
import { pythonShapes, shapes } from './shapes.ts';

async function assertSame(environment: JudgedEnvironment): Promise<Record<string, string>> {
  const { rattler, ours } = await judge(environment);
  assert.deepEqual(ours.tree, rattler.tree);
  assert.deepEqual(ours.records, rattler.records);
  return ours.tree;
}

test('packages of every shape are installed as by rattler', async () => {
  const tree = await assertSame({ packages: shapes });
  assert.match(tree['bin/c'] ?? '', /bin\/a$/);
  assert.ok(Object.keys(tree).length > 60);
});

test('a prefix that is too long for a shebang goes another way to the interpreter', async () => {
  const prefix = `/opt/${'long/'.repeat(25)}env`;
  await assertSame({ packages: shapes, prefix });
});

test('a prefix with a blank goes another way to the interpreter', async () => {
  await assertSame({ packages: shapes.slice(0, 2), prefix: '/opt/with a blank' });
});

test('Python packages are placed for their Python', async () => {
  const python = {
    name: 'python',
    version: '3.11.2',
    files: [{ name: 'bin/python3.11', content: '' }],
  };
  const tree = await assertSame({
    packages: pythonShapes(python),
    python: { minorVersion: '3.11', sitePackages: 'lib/python3.11/site-packages' },
  });
  assert.match(tree['bin/pure'] ?? '', /^file 775/);
});

test('a free-threaded Python has its packages at another place', async () => {
  const sitePackages = 'lib/python3.13t/site-packages';
  const python = {
    ...{ name: 'python', version: '3.13.1', build: 'h1_cp313t' },
    index: { python_site_packages_path: sitePackages },
    files: [{ name: 'bin/python3.13', content: '' }],
  };
  const tree = await assertSame({
    packages: pythonShapes(python),
    prefix: `/opt/${'long/'.repeat(25)}env`,
    python: { minorVersion: '3.13t', sitePackages },
  });
  assert.ok(tree[`${sitePackages}/pure/main.py`]);
});
