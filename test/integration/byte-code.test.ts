/** Dates in built images: the same digest each time, and valid compiled Python code. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { connect } from '../../src/buildkit/index.ts';
import { tarOf } from '../sif/tar-file.ts';
import { openApptainer } from '../world/apptainer.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { runWithPodman } from '../world/clients.ts';
import { type CondaImages, pushCondaImages } from '../world/conda-image.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { assertSuccess } from './served.ts';

// Prints for each module whether Python would compile it again, and whether zip files accept its time.
const examine = `
import glob, os, struct, zipfile
for path in sorted(glob.glob('/app/__pycache__/*.pyc')):
    head = open(path, 'rb').read(16)
    name = os.path.basename(path).split('.')[0]
    source = os.stat('/app/' + name + '.py')
    flags, mtime, size = struct.unpack('<3L', head[4:])
    stamp = (int(source.st_mtime), source.st_size)
    print(name, 'hashed' if flags else 'valid' if (mtime, size) == stamp else 'stale')
with zipfile.ZipFile('/dev/null', 'w') as archive:
    for path in sorted(glob.glob('/app/*.py') + glob.glob('/app/*.txt')):
        archive.write(path)
        print(os.path.basename(path), int(os.stat(path).st_mtime))
`;

const dated = 1735689600;
const expected = [
  'added valid',
  // Its text was changed after Python had compiled it.
  'changed stale',
  'compiled valid',
  'edited stale',
  'imported valid',
  'old valid',
  `added.py ${dated}`,
  `changed.py ${dated}`,
  `compiled.py ${dated}`,
  `edited.py ${dated}`,
  `imported.py ${dated}`,
  // 2020: packages keep the dates of their files.
  'old.py 1588723200',
  `sent.txt ${dated}`,
].join('\n');

suite('dates in built images', { concurrency: 1 }, () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let images: CondaImages;
  let sluice: Sluice;

  before(async () => {
    registry = await startRegistry();
    buildkitd = await startBuildkitd();
    const nowhere = { channelAlias: 'http://127.0.0.1:1', pipIndex: 'http://127.0.0.1:1' };
    images = await pushCondaImages(buildkitd.address, registry.host, nowhere);
    sluice = await startSluice({
      config: {
        buildkit: [buildkitd.address],
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await buildkitd?.stop();
    await registry?.stop();
  });

  const dockerfile = () => `FROM ${images.manager} AS made
WORKDIR /app
RUN echo 'VALUE = 1' | tee compiled.py > edited.py && python3 -m compileall -q .
RUN echo 'VALUE = 2' > imported.py && python3 -c 'import imported'
RUN echo 'VALUE = 3' > old.py && touch -d 2020-05-06T00:00:00Z old.py && python3 -c 'import old'
RUN echo 'VALUE = 4' > changed.py && python3 -c 'import changed' && sleep 1.1 && echo 'VALUE = 5' > changed.py
FROM ${images.manager}
COPY --from=made /app /app
WORKDIR /app
RUN sleep 1.1 && sed -i s/1/6/ edited.py && echo 'VALUE = 7' > added.py
RUN python3 -c 'import added'
COPY sent.txt ./
`;
  const request = async (more: object): Promise<string> => {
    const context = gzipSync(tarOf([{ name: 'sent.txt', content: Buffer.from('sent\n') }]));
    const response = (await sluice.request({
      containerFile: Buffer.from(dockerfile()).toString('base64'),
      buildContext: { location: `data:${context.toString('base64')}` },
      ...more,
    })) as unknown as { targetImage: string; buildId: string };
    const path = `/v1alpha1/builds/${response.buildId}`;
    const log = await (await sluice.fetch(`${path}/logs?follow=true`)).text();
    assert.match(log, /The build succeeded/);
    return response.targetImage;
  };
  const forget = async () => {
    const client = connect(buildkitd.address);
    try {
      await client.prune({ all: true });
    } finally {
      client.close();
    }
  };
  const program = ['python3', '-c', examine];

  test('a repeated build has the same digest, and Python finds its byte code', async () => {
    const place = (name: string) => ({
      freeze: true,
      buildRepository: `${registry.host}/${name}`,
      // The caller's cache is written, and not read.
      cacheRepository: `${registry.host}/cache/${name}`,
    });
    const first = await request(place('first'));
    await forget();
    const second = await request(place('second'));
    const digestOf = async (name: string) => {
      const [repository, tag] = name.slice(`${registry.host}/`.length).split(':');
      const accept = { accept: 'application/vnd.oci.image.manifest.v1+json' };
      const url = `http://${registry.host}/v2/${repository}/manifests/${tag}`;
      return (await fetch(url, { headers: accept })).headers.get('docker-content-digest');
    };
    assert.match((await digestOf(first)) ?? '', /^sha256:/);
    assert.equal(await digestOf(first), await digestOf(second));
    await using root = await openRoot('forky');
    const said = assertSuccess(await runWithPodman(root, first, { command: program }));
    assert.equal(said.trim(), expected);
    const value = ['python3', '-c', 'import edited, changed; print(edited.VALUE, changed.VALUE)'];
    assert.equal(assertSuccess(await runWithPodman(root, second, { command: value })), '6 5\n');
  });

  test('the same is true for a Singularity image', async () => {
    const name = await request({
      ...{ format: 'sif', freeze: true },
      buildRepository: `${registry.host}/sif`,
    });
    await using apptainer = await openApptainer();
    const args = ['exec', '--no-https', name, ...program];
    assert.equal(assertSuccess(await apptainer.run(args)).trim(), expected);
  });
});
