import assert from 'node:assert/strict';
import { test } from 'node:test';
import { titleOfLayer, titleOfPackage } from '../../../src/conda/layers/layer-title.ts';

const titled = (url: string) => titleOfPackage({ name: 'samtools', version: '1.20', url });
const file = 'samtools-1.20-0.conda';

test('a package has its name, its version and its channel', () => {
  const channel = 'https://conda.anaconda.org/bioconda';
  assert.equal(titled(`${channel}/linux-64/${file}`), 'samtools 1.20 (bioconda)');
  assert.equal(titled(`${channel}/noarch/${file}`), 'samtools 1.20 (bioconda)');
});

test('a channel that is a token, or not a plain name, is left out', () => {
  assert.equal(titled(`https://host/t/secret/linux-64/${file}`), 'samtools 1.20');
  assert.equal(titled(`https://host/t/secret/own/linux-64/${file}`), 'samtools 1.20 (own)');
  assert.equal(titled(`https://host/a b/linux-64/${file}`), 'samtools 1.20');
  assert.equal(titled(file), 'samtools 1.20');
});

test('a layer of many packages names the first ones and counts the others', () => {
  assert.equal(titleOfLayer('pypi', ['numpy 2.1']), 'pypi: numpy 2.1');
  assert.equal(titleOfLayer('conda', ['a 1', 'b 2']), 'conda: a 1, b 2');
  const many = Array.from({ length: 2000 }, () => `${'x'.repeat(200)} 1`);
  const title = titleOfLayer('conda', many);
  assert.match(title, / and 1996 more$/);
  assert.ok(title.length < 1100, `${title.length} characters`);
});
