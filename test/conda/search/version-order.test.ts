/** Versions of packages have the order of conda: py-rattler is the judge. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { newestFirst } from '../../../src/conda/search/version-order.ts';
import { runProgram } from '../../world/program.ts';
import { requireCommand, requireConda } from '../../world/tools.ts';

// Some pairs of these are in an order that a reader of the rules gets wrong: an underscore at the end, a local part, `dev`.
const versions = [
  ...['1', '1.1dev1', '1.1a1', '1.1.0rc1', '1.1.0', '1.1.0post1', '2024.1', '2024a'],
  ...['9d', '9e', '1.0.1a', '1.0.1_', '1.0+local', '1.0+2', '1.0.dev', '1.0_1', '1!0.4'],
  ...[
    '0.5b3',
    '0.5C1',
    '1_',
    '1__',
    '1a',
    '1.post',
    '1.0.0.dev0',
    '1.0openblas',
    '1.1.1h',
    '3_4',
    '3.5',
  ],
];
const unreadable = ['1..2', '.1', '_', '99999999999999999999'];

const judge = `
import json, sys
from rattler import Version
def readable(text):
    try:
        return Version(text)
    except Exception:
        return None
texts = json.load(sys.stdin)
found = [(text, readable(text)) for text in texts]
known = sorted(((text, one) for text, one in found if one is not None), key=lambda pair: pair[1])
print(json.dumps([text for text, _ in reversed(known)]))
`;

test('versions have the order of py-rattler, without those that it cannot read', async () => {
  const { code, stdout, stderr } = await runProgram([requireCommand('python3'), '-c', judge], {
    env: { ...process.env, PYTHONPATH: join(requireConda(), 'rattler') },
    input: JSON.stringify([...versions, ...unreadable]),
  });
  assert.equal(code, 0, stderr);
  const expected = JSON.parse(stdout);
  assert.equal(expected.length, versions.length);
  for (const given of [[...versions, ...unreadable], [...unreadable, ...versions].reverse()]) {
    assert.deepEqual(newestFirst(given), expected);
  }
});
