/** Real wheels are installed as uv and pip install them. `judge-many.ts` does the same for packages of an index. */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { projectName } from '../../../src/pypi/wheel-file.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { requireUv, requireWheels } from '../../world/tools.ts';
import {
  differences,
  installByPip,
  installByUs,
  installByUv,
  makeEnvironment,
  wheelTree,
  withoutTree,
} from './judged-wheels.ts';

for (const judge of ['uv', 'pip'] as const) {
  test(`the trees of twelve real wheels are those of ${judge}`, async () => {
    const [uv, folder] = [requireUv(), requireWheels()];
    const wheels = globSync(join(folder, '*.whl')).sort();
    assert.equal(wheels.length, 12);
    await using directory = await makeTempDir('wheel-judge');
    const place = makeEnvironment(uv, directory.join('judge'));
    const before = wheelTree(place.prefix, judge);
    // Pip names the directory of headers as the request spells the package.
    const names = wheels.map(path => projectName(basename(path).replace(/-.*/, '')));
    const [pip = ''] = globSync(join(folder, 'pip-*.whl'));
    if (judge === 'uv') installByUv(uv, place, folder, names);
    else installByPip(pip, place, folder, names);
    const theirs = withoutTree(wheelTree(place.prefix, judge), before);
    const root = directory.join('ours');
    for (const path of wheels) {
      const { warnings } = await installByUs(path, root, place);
      assert.deepEqual(warnings, []);
    }
    const ours = withoutTree(wheelTree(join(root, place.prefix), judge), before);
    assert.deepEqual(differences(theirs, ours), {});
    assert.ok(Object.keys(ours).length > 700, `${Object.keys(ours).length} paths`);
  });
}
