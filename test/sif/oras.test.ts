import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { sifConfig, sifManifest } from '../../src/images/sif/format/oras.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { openApptainer } from '../world/apptainer.ts';
import { startRegistry } from '../world/registry.ts';
import { assembleSif } from './assemble.ts';

test('manifest and config equal those of apptainer push byte for byte', async () => {
  await using apptainer = await openApptainer();
  await using registry = await startRegistry();
  for (const name of ['plain', 'odd & <name>']) {
    const sif = await assembleSif(apptainer, name, {});
    const target = `oras://${registry.host}/sif/image:1`;
    const { code, stderr } = await apptainer.run(['push', '--no-https', sif, target]);
    assert.equal(code, 0, stderr);
    const bytes = await readFile(sif);
    const layer = { digest: digestOf(bytes), size: bytes.length };
    const manifest = sifManifest(layer, `${name}.sif`);
    const response = await fetch(`${registry.url}/v2/sif/image/manifests/1`, {
      headers: { accept: manifest.mediaType },
    });
    assert.equal(response.headers.get('content-type'), manifest.mediaType);
    assert.equal(await response.text(), manifest.bytes.toString());
    assert.equal(response.headers.get('docker-content-digest'), manifest.digest);
    const config = await fetch(`${registry.url}/v2/sif/image/blobs/${sifConfig.digest}`);
    assert.equal(await config.text(), sifConfig.bytes.toString());
  }
});
