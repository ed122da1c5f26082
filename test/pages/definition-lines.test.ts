import assert from 'node:assert/strict';
import { test } from 'node:test';
import { definitionLines, type ShownStep } from '../../src/pages/builds/recipe/shown-recipe.ts';

const step = (name: string, state: ShownStep['state'], spentMs: number): ShownStep => ({
  ...{ number: 1, name, state, spentMs, startedAt: 0, endedAt: spentMs, error: undefined },
});
const steps = [
  step('[linux/amd64 1/4] FROM docker.io/library/alpine', 'cached', 5),
  step('[2/4] COPY a /a', 'done', 10),
  step('[3/4] COPY b /b', 'done', 30),
  step('[4/4] RUN ["/bin/sh","/dev/sluice/prepare","x"]', 'failed', 900),
];

test('the steps of a definition file stand at the headers of its sections', () => {
  const text = 'Bootstrap: docker\nFrom: alpine\n\n%files\n  a /a\n  b /b\n%post\n  exit 3\n';
  const lines = definitionLines(text, steps);
  assert.deepEqual(
    lines.map(({ step: own, isFailed }) => [own?.spentMs, isFailed]),
    [
      [undefined, false],
      [5, false],
      [undefined, false],
      [30, false],
      [undefined, false],
      [undefined, false],
      [900, true],
      [undefined, false],
    ],
  );
});

test('a section of which there are several has no times: they could be those of another', () => {
  const text = 'Bootstrap: docker\nFrom: a\n%post\n one\nBootstrap: docker\nFrom: b\n%post\n two\n';
  assert.ok(definitionLines(text, steps).every(line => line.step === undefined));
});

test('lines inside sections are not headers, whatever they look like', () => {
  const text = 'Bootstrap: docker\nFrom: a\n%labels\n  From: here\n%post\n  cat <<E\nFrom: b\nE\n';
  const lines = definitionLines(text, steps);
  assert.deepEqual(
    lines.flatMap(({ text: line, step: own }) => (own ? [[line, own.spentMs]] : [])),
    [
      ['From: a', 5],
      ['%post', 900],
    ],
  );
});
