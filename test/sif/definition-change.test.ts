import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeDefinition } from '../../src/sif/definition-change.ts';

const definition = {
  ...{ text: 'Bootstrap: docker\nFrom: x\n', headers: {}, labels: {}, help: 'Help' },
  ...{ runscript: '#!/bin/sh\nown\n', environment: 'export A=own\n' },
};

test('what is asked for comes before what a definition file says', () => {
  const started = { ...definition, runscript: undefined };
  assert.deepEqual(changeDefinition(definition, { entrypoint: ['x'] }), started);
  assert.deepEqual(changeDefinition(definition, { cmd: ['x'] }), started);
  const set = changeDefinition(definition, { env: ["A=it's", 'no-name=x', 'B=1', 'B=2'] });
  const environment = `export A=own\nexport A='it'"'"'s'\nexport B='2'\n`;
  assert.deepEqual(set, { ...definition, environment });
});

test('what is not asked for stays as it is', () => {
  assert.deepEqual(changeDefinition(definition, {}), definition);
  // The image config has the variables, and nothing comes before that.
  const { environment: _, ...plain } = definition;
  assert.equal(changeDefinition(plain, { env: ['A=1'] }).environment, undefined);
});
