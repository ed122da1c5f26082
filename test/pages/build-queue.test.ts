import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statePart, stepsPart } from '../../src/pages/builds/build-state.ts';
import type { BuildView } from '../../src/pages/builds/build-view.ts';
import type { ShownStep } from '../../src/pages/builds/recipe/shown-recipe.ts';

const waiting: BuildView = {
  ...{ id: 'key_1', state: 'queued', createdAt: 0, startedAt: undefined, finishedAt: undefined },
  ...{ failure: undefined, steps: [], isFromLog: true, lines: undefined, progress: new Map() },
  image: {
    ...{ name: 'host/builds:1', isPlainHttp: false, format: 'docker', digest: undefined },
    ...{ platforms: [], documents: [] },
  },
  recipe: { title: 'Dockerfile', lines: [], facts: [] },
  queue: undefined,
};
const shown = (before: number, all: number) => {
  const waitsFor = 'other builds, which go first';
  return statePart({ ...waiting, queue: { waitsFor, before, all } }).toString();
};

test('a waiting build says what it waits for, and its place in the queue', () => {
  assert.match(shown(0, 1), /waits for other builds, which go first\. <\/p>/);
  assert.match(shown(0, 3), /It goes before all other waiting builds\./);
  assert.match(
    shown(2, 3),
    /2 of 3 waiting builds go before it\. Callers take turns; those with a login go first\./,
  );
  assert.match(shown(2, 3), /<span class="badge wait" role="status">waiting<\/span>/);
});

test('the time line of a running build ends at a round time, so that it changes seldom', () => {
  const step: ShownStep = {
    ...{ number: 1, name: 'RUN make', state: 'running', startedAt: 0 },
    ...{ endedAt: undefined, spentMs: undefined, error: undefined },
  };
  const at = (now: number) => {
    const view: BuildView = { ...waiting, state: 'running', isFromLog: false, steps: [step] };
    return stepsPart(view, now).toString();
  };
  assert.equal(at(10_200), at(11_800));
  assert.match(at(10_200), /<rect class="running"/);
});
