/** What an explanation of uv says of packages without a wheel. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { olderPythonIn, unusableIn } from '../../../src/pypi/solving/solve-failures.ts';

test('the newest older Python of an explanation is found', () => {
  const cases: readonly (readonly [string, string | undefined])[] = [
    // Words of uv 0.13.9 about tensorflow 2.15.0.
    [
      'Because tensorflow==2.15.0 has no wheels with a matching Python ABI tag (e.g., `cp313`) and you require tensorflow==2.15.0, we can conclude that your requirements are unsatisfiable. hint: You require CPython 3.13 (`cp313`), but we only found wheels for `tensorflow` (v2.15.0) with the following Python ABI tags: `cp39`, `cp310`, `cp311`',
      '3.11',
    ],
    [
      'Because the requested Python version (>=3.13.1) does not satisfy Python>=3.8,<3.12 and',
      '3.11',
    ],
    ['does not satisfy Python<=3.10', '3.10'],
    ['does not satisfy Python>=3.14', undefined],
    ['does not satisfy Python<3.0', undefined],
    ['Because there is no version of six==1.99 and you require six==1.99', undefined],
  ];
  for (const [words, expected] of cases) assert.equal(olderPythonIn(words, 13), expected, words);
});

test('the projects whose versions have source distributions alone are found', () => {
  // Words of uv 0.13.9 about azureml-defaults with Python 3.6.
  const words =
    'Because wrapt>=1.11.1,<=1.12.0 has no usable wheels and inference-schema<=1.2.0 depends on wrapt==1.11.1, we can conclude that inference-schema<=1.2.0 cannot be used. And because zope.interface has no usable wheels';
  assert.deepEqual(unusableIn(words), ['wrapt', 'zope-interface']);
  assert.deepEqual(unusableIn('Because there is no version of six==1.99'), []);
});
