import assert from 'node:assert/strict';
import { test } from 'node:test';
import { trendOf } from './trend.ts';

/** Figures with noise, the same each time. */
function noisy(count: number, perRound: number, noise: number): number[] {
  let state = 12_345;
  return Array.from({ length: count }, (_, at) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return 1000 + perRound * at + noise * (state / 2 ** 32 - 0.5);
  });
}

test('a leak below the noise of one measurement is a trend', () => {
  assert.equal(trendOf(noisy(40, 2, 40), 1).grows, true);
});

test('noise, a fall, and a slope that is allowed are none', () => {
  assert.equal(trendOf(noisy(40, 0, 40), 0).grows, false);
  assert.equal(trendOf(noisy(40, -2, 40), 0).grows, false);
  assert.equal(trendOf(noisy(40, 2, 40), 3).grows, false);
});

test('one that takes a step and stays there is none', () => {
  const steps = Array.from({ length: 40 }, (_, at) => (at < 5 ? 100 : 140));
  assert.equal(trendOf(steps, 0).grows, false);
});

test('long waves are none, and a leak below them is one', () => {
  const wave = (at: number) => 100 + 30 * Math.sin(at / 42 - Math.PI / 2);
  const waves = Array.from({ length: 400 }, (_, at) => wave(at));
  assert.equal(trendOf(waves, 0).grows, false);
  const leaking = waves.map((figure, at) => figure + at / 2);
  assert.equal(trendOf(leaking, 0).grows, true);
});

test('a descriptor in every third round is a trend, and one in all rounds is none', () => {
  const leaking = Array.from({ length: 30 }, (_, at) => 30 + Math.floor(at / 3));
  assert.equal(trendOf(leaking, 0.1).grows, true);
  assert.equal(trendOf([31, ...Array(29).fill(32)], 0.1).grows, false);
});
