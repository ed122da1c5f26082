/** Singularity images of many files and of large files, made with little memory. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { imageOf } from '../corpus/image.ts';
import { Pusher } from '../corpus/push.ts';
import { keptLayer, writeLayer } from '../sif/distribution-layer.ts';
import { fileCount, manySmallFiles } from '../sif/many-small-files.ts';
import { tarOf } from '../sif/tar-file.ts';
import { openApptainer } from '../world/apptainer.ts';
import { startRegistry } from '../world/registry.ts';
import { textsOf } from '../world/run-folder.ts';
import { startMeasuredSluice } from '../world/sluice.ts';
import { assertSuccess } from './served.ts';

const mostMiB = 300;
const mebibyte = 1024 * 1024;
// Above 2 GiB, where signed numbers of 32 bits end.
const largeSize = 2200 * mebibyte;

function* oneLargeFile(): Generator<Buffer> {
  yield tarOf([{ name: 'large', pax: { size: String(largeSize) } }], { end: false });
  const block = Buffer.alloc(mebibyte, 'What is written here is the same again and again. ');
  for (let at = 0; at < largeSize; at += mebibyte) yield block;
  yield Buffer.alloc(1024);
}

const sources = [
  '../integration/sif-large.test.ts',
  '../sif/many-small-files.ts',
  '../sif/tar-file.ts',
  '../sif/distribution-layer.ts',
];

const cases = [
  {
    what: `${fileCount} files`,
    tar: manySmallFiles,
    place: 'app',
    isListed: (list: string) => list.match(/\.js$/gm)?.length === fileCount,
  },
  {
    what: '2.2 GiB',
    tar: oneLargeFile,
    place: 'large',
    isListed: (list: string) => new RegExp(` ${largeSize} .*/large$`, 'm').test(list),
  },
] as const;

for (const { what, tar, place, isListed } of cases) {
  test(`an image of ${what} is converted in less than ${mostMiB} MB of memory`, async () => {
    const texts = textsOf(...sources);
    const layer = await keptLayer(place, texts, path => writeLayer(tar, path));
    await using registry = await startRegistry();
    const pusher = await Pusher.open(registry, 'large');
    await pusher.push(imageOf({ layers: [layer] }), '1');
    await pusher.close();
    await using sluice = await startMeasuredSluice({
      config: { registries: { [registry.host]: { plainHttp: true } } },
    });
    const response = (await sluice.request({
      containerImage: `${registry.host}/large:1`,
      format: 'sif',
      freeze: true,
      buildRepository: `${registry.host}/sif/large`,
    })) as unknown as { targetImage: string; buildId: string };
    const route = `/v1alpha1/builds/${response.buildId}`;
    const log = await (await sluice.fetch(`${route}/logs?follow=true`)).text();
    const status = await (await sluice.fetch(`${route}/status`)).json();
    assert.equal((status as { succeeded: boolean }).succeeded, true, log);

    const text = await readFile(`/proc/${sluice.process.pid}/status`, 'latin1');
    const peakKiB = Number(/^VmHWM:\s+(\d+) kB$/m.exec(text)?.[1]);
    assert.ok(peakKiB / 1024 < mostMiB, `${Math.round(peakKiB / 1024)} MiB at most`);

    await using apptainer = await openApptainer();
    const file = apptainer.join('root', 'home', 'large.sif');
    assertSuccess(await apptainer.run(['pull', '--no-https', file, response.targetImage]));
    const lister = ['unsquashfs', '-offset', '36864', '-lln', file, place];
    const list = assertSuccess(await apptainer.runProgram(lister));
    assert.ok(isListed(list), list.slice(0, 2000));
  });
}
