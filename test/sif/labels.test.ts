import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DefinitionRuntime } from '../../src/images/sif/runtime/definition-runtime.ts';
import { labelsIn, runtimeLabels } from '../../src/images/sif/runtime/labels.ts';

const definition: DefinitionRuntime = { text: '', headers: {}, labels: {} };
const sources = { image: {}, definition, architecture: 'amd64', createdAt: 0 };
const always = {
  'org.label-schema.build-arch': 'amd64',
  'org.label-schema.build-date': 'Thursday_1_January_1970_00:00:00_UTC',
  'org.label-schema.schema-version': '1.0',
};

test('a label that %post wrote precedes that of the image, which precedes that of the definition', () => {
  const of = (...names: ('definition' | 'image' | 'written')[]) => {
    const labels = runtimeLabels({
      ...sources,
      definition: {
        ...definition,
        labels: names.includes('definition') ? { x: 'definition' } : {},
      },
      image: names.includes('image') ? { x: 'image' } : {},
      ...(names.includes('written') ? { written: { x: 'written' } } : {}),
    });
    return labels.x;
  };
  assert.equal(of('definition', 'image', 'written'), 'written');
  assert.equal(of('definition', 'image'), 'image');
  assert.equal(of('definition', 'written'), 'written');
  assert.equal(of('definition'), 'definition');
  assert.equal(of(), undefined);
});

test('nobody changes what Sluice says about the image itself', () => {
  const names = Object.keys(always);
  const lies = Object.fromEntries(names.map(name => [name, 'a lie']));
  const made = runtimeLabels({ ...sources, image: lies, written: lies });
  assert.deepEqual(made, always);
});

test('the help and the headers of the definition are told, sorted by name', () => {
  const help = '/.singularity.d/runscript.help';
  const made = runtimeLabels({
    ...sources,
    definition: { ...definition, help: 'Help', headers: { from: 'x', bootstrap: 'docker' } },
    image: { zebra: '1', Alpha: '2' },
  });
  assert.deepEqual(Object.entries(made), [
    ['Alpha', '2'],
    ['org.label-schema.build-arch', 'amd64'],
    ['org.label-schema.build-date', 'Thursday_1_January_1970_00:00:00_UTC'],
    ['org.label-schema.schema-version', '1.0'],
    ['org.label-schema.usage', help],
    ['org.label-schema.usage.apptainer.runscript.help', help],
    ['org.label-schema.usage.singularity.deffile.bootstrap', 'docker'],
    ['org.label-schema.usage.singularity.deffile.from', 'x'],
    ['zebra', '1'],
  ]);
});

test('dates have the names of days and months, and two digits of the time', () => {
  const names = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August']
    .concat(['September', 'October', 'November', 'December'])
    .map((month, index) => [Date.UTC(2024, index, 29, 1, 2, 3), `29_${month}_2024_01:02:03_UTC`]);
  for (const [createdAt, end] of names) {
    const made = runtimeLabels({ ...sources, createdAt: Number(createdAt) });
    assert.ok(made['org.label-schema.build-date']?.endsWith(`_${end}`), String(end));
  }
  const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
  for (const [index, day] of days.entries()) {
    const createdAt = Date.UTC(2024, 8, 1 + index, 12, 34, 56);
    const date = runtimeLabels({ ...sources, createdAt })['org.label-schema.build-date'];
    assert.equal(date, `${day}_${1 + index}_September_2024_12:34:56_UTC`);
  }
});

test('a line is a name and the rest of the line', () => {
  const lines = ['Version 1.0 beta', 'Empty', 'Spaces   ', '\tIndented two words '];
  const labels = { Version: '1.0 beta', Empty: '', Spaces: '', Indented: 'two words' };
  assert.deepEqual(labelsIn(lines), labels);
});
