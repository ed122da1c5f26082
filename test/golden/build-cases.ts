import type { SubmittedBuild } from '../../src/builds/recipe/submitted.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const conda = (entries: readonly string[], more: object = {}): SubmittedBuild => ({
  packages: { type: 'CONDA', entries, ...more },
});
const file = (lines: readonly string[]) => base64(`${lines.join('\n')}\n`);
const md5 = '0123456789abcdef0123456789abcdef';

/** Every kind of build request with its own recipe, by the name of its folder. */
export const buildCases: Readonly<Record<string, SubmittedBuild>> = {
  'container-file': { containerFile: base64('FROM alpine:3.20\r\nRUN apk add curl\n') },
  'one-package': conda(['samtools=1.20']),
  'many-packages': conda([
    'samtools=1.20',
    "'numpy>=1.20'",
    'bwa 0.7.17 h7132678_9',
    'conda-forge::r-base',
    'multiqc==1.21',
    'fastqc',
    'samtools=1.20',
  ]),
  channels: conda(['tool'], {
    channels: ['conda-forge/label/dev', 'https://channels.example.com/a'],
  }),
  'pip-entries': conda(['python=3.12', 'pip:requests==2.32.3', 'pip:flask', 'pip=24']),
  'pip-only': conda(['pip:requests']),
  'channel-of-package': conda(['https://channels.example.com/b::tool[version=">=2",build=py*]']),
  'package-urls': conda([
    `https://conda.anaconda.org/bioconda/linux-64/bwa-0.7.17-h7132678_9.tar.bz2#${md5}`,
    'samtools',
  ]),
  'package-url-alone': conda(
    ['https://conda.anaconda.org/bioconda/noarch/multiqc-1.21-pyhdfd78af_0.conda'],
    { condaOpts: { basePackages: '' } },
  ),
  'environment-file': {
    packages: {
      type: 'conda',
      environment: file([
        '# what the paper used',
        'name: Mapping_2024',
        'channels:',
        '  - bioconda',
        '  - conda-forge',
        '  - nodefaults',
        'dependencies:',
        '  - samtools =1.20',
        '  - bwa',
        '  - pip',
        '  - pip:',
        '      - --extra-index-url https://pypi.example.com/simple',
        "      - numpy>=1.20; python_version < '3.13'",
        '      - git+https://git.example.com/a/b.git@v1#egg=b',
      ]),
      channels: ['https://channels.example.com/a', 'bioconda'],
    },
  },
  'environment-variables': {
    condaFile: file([
      'dependencies: [gdal]',
      'variables:',
      '  GDAL_DATA: /opt/conda/share/gdal',
      '  GREETING: say "hello" to $USER \\o/',
      '  THREADS: 4',
      '  EMPTY: ""',
    ]),
  },
  'anchors-and-flow': {
    condaFile: file([
      'channels: &all [bioconda]',
      'dependencies: ["bwa", {pip: [a, b]}]',
      'x: *all',
    ]),
  },
  'cuda-by-name': conda(['pytorch-gpu', 'python=3.11']),
  'cuda-by-version': conda(['pytorch', 'cuda-version=12.4.1']),
  'cuda-by-build': conda(['jaxlib=0.4=*cuda*']),
  'lock-content': conda([
    [
      '# platform: linux-64',
      '@EXPLICIT',
      `https://conda.anaconda.org/conda-forge/linux-64/libzlib-1.3.1-h4ab18f5_1.conda#${md5}`,
      'https://conda.anaconda.org/conda-forge/linux-64/procps-ng-4.0.4-h6d6ddd4_0.conda',
    ].join('\n'),
  ]),
  'lock-content-with-pip': {
    condaFile: file([
      '@EXPLICIT',
      `https://conda.anaconda.org/conda-forge/linux-64/python-3.12.4-h194c7f8_0_cpython.conda#${md5}`,
      '# pip requests==2.32.3',
      '# pip b @ git+https://git.example.com/a/b.git@0123456',
    ]),
  },
  'lock-address': conda(['https://locks.example.com/v1alpha1/builds/0a_1/condalock'], {
    channels: ['conda-forge'],
  }),
  'lock-address-conda-lock': conda(['https://locks.example.com/conda-lock.yml?ref=main']),
  'no-base-packages': conda(['bwa'], { condaOpts: { basePackages: ' ' } }),
  'base-packages': conda(['bwa'], {
    condaOpts: { basePackages: 'conda-forge::procps-ng  bash>=5' },
  }),
  images: conda(['bwa'], {
    condaOpts: {
      mambaImage: `registry.example.com:5000/tools/mamba@sha256:${'a'.repeat(64)}`,
      baseImage: 'debian:12-slim',
    },
  }),
  commands: conda(['bwa'], {
    condaOpts: {
      commands: [
        'apt-get update && apt-get install -y curl',
        'RUN echo "$HOME" > /home.txt',
        '[ -e /opt/conda ] && bwa --help',
        'cat <<EOF',
        'ENV THREADS=4',
        'USER nobody',
        'LABEL a="b c"',
        'WORKDIR /work',
      ],
    },
  }),
};
