import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { bytesOf } from '../corpus/content.ts';
import { layerOf } from '../corpus/layer.ts';
import { freePort } from './free-port.ts';

/** A project in version 1.0 that has a source distribution only, with a build backend of its own. */
export interface SourceProject {
  readonly name: string;
  /** What its `pyproject.toml` says that a build requires. */
  readonly requires?: readonly string[];
  /** Python with the hooks of a backend. `write(folder, name, text)` makes a wheel of one module. */
  readonly backend: (probePort: number) => string;
}

/** An index of Python packages on the loopback. */
export interface SourceIndex {
  /** Base URL, without a slash at its end. */
  readonly url: string;
  /** How often something has connected to the port that backends get. */
  connections(): number;
  stop(): Promise<void>;
}

/** Returns the files of a project whose backend makes a wheel of one module. */
export function projectFiles(
  name: string,
  text: string,
  metadata: readonly string[] = [],
): Record<string, string> {
  const lines = JSON.stringify(metadata.map(line => `${line}\n`).join(''));
  return {
    'pyproject.toml': `[build-system]\nrequires = ["six"]\nbuild-backend = "backend"\nbackend-path = ["."]\n\n[project]\nname = "${name}"\nversion = "1.0"\n`,
    'backend.py': `${writer}
def build_wheel(folder, settings=None, metadata=None):
    return write(folder, "${name}", ${JSON.stringify(text)}, ${lines})
`,
  };
}

const writer = `import os, zipfile

def write(folder, name, text, more=""):
    stem = name + "-1.0.dist-info/"
    files = {
        name + ".py": text,
        stem + "METADATA": "Metadata-Version: 2.1\\nName: " + name + "\\nVersion: 1.0\\n" + more,
        stem + "WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[stem + "RECORD"] = "".join(one + ",,\\n" for one in files) + stem + "RECORD,,\\n"
    wheel = name + "-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w") as archive:
        for one, content in files.items():
            archive.writestr(one, content)
    return wheel
`;

export async function startSourceIndex(projects: readonly SourceProject[]): Promise<SourceIndex> {
  const probePort = await freePort();
  let connections = 0;
  const probe = createServer();
  probe.on('connection', socket => {
    connections += 1;
    socket.destroy();
  });
  probe.listen(probePort, '127.0.0.1');
  const pages = new Map<string, { type: string; body: Buffer }>();
  for (const { name, requires = [], backend } of projects) {
    const root = `${name}-1.0`;
    const pyproject = `[build-system]\nrequires = ${JSON.stringify(requires)}\nbuild-backend = "backend"\nbackend-path = ["."]\n\n[project]\nname = "${name}"\nversion = "1.0"\n`;
    const metadata = `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n`;
    const { content } = await layerOf([
      { name: `${root}/pyproject.toml`, content: pyproject },
      { name: `${root}/PKG-INFO`, content: metadata },
      { name: `${root}/backend.py`, content: writer + backend(probePort) },
    ]);
    const archive = bytesOf(content);
    const sha256 = createHash('sha256').update(archive).digest('hex');
    const file = `${root}.tar.gz`;
    const page = `<!DOCTYPE html><title>Links for ${name}</title><a href="/files/${file}#sha256=${sha256}">${file}</a>`;
    pages.set(`/simple/${name}/`, { type: 'text/html', body: Buffer.from(page) });
    pages.set(`/files/${file}`, { type: 'application/gzip', body: archive });
  }
  const server = createServer((request, response) => {
    const found = pages.get(request.url ?? '');
    if (found === undefined) return void response.writeHead(404).end();
    response.writeHead(200, { 'content-type': found.type, 'content-length': found.body.length });
    response.end(found.body);
  });
  const port = await freePort();
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(port, '127.0.0.1', resolve);
  await promise;
  return {
    url: `http://127.0.0.1:${port}/simple`,
    connections: () => connections,
    async stop() {
      server.closeAllConnections();
      probe.closeAllConnections();
      await Promise.all([server, probe].map(one => new Promise(done => one.close(done))));
    },
  };
}
