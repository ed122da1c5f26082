/**
 * Packages of 20 real environments with 5 to 150 packages each, of tools that pipelines for genomes run. They are the
 * solutions for `linux-64` that a public collection of workflow wrappers pinned in 2023 to 2026: names only, as if all of
 * them were solved on one day.
 */

const words = (text: string) => text.trim().split(/\s+/);

const fonts =
  words(`font-ttf-dejavu-sans-mono font-ttf-inconsolata font-ttf-source-code-pro font-ttf-ubuntu
  fonts-conda-forge fonts-conda-ecosystem`);
const c = words(
  '_libgcc_mutex ca-certificates libgomp _openmp_mutex libgcc-ng ncurses openssl bzip2 libzlib zstd',
);
const net = words('c-ares keyutils libedit libev libnghttp2 libssh2 krb5 libcurl');
const python = words('ld_impl_linux-64 tzdata libffi libuuid libsqlite readline tk python pip');
const oldPython = [...python, ...words('libnsl xz setuptools wheel')];
const x =
  words(`pthread-stubs xorg-libice xorg-libxau xorg-libxdmcp xorg-libsm xorg-libx11 xorg-libxext xorg-libxfixes
  xorg-libxrender xorg-libxt xorg-libxi xorg-libxtst`);
const oldX = [
  ...x,
  ...words(
    `xorg-inputproto xorg-kbproto xorg-recordproto xorg-renderproto xorg-xextproto xorg-xproto xorg-fixesproto`,
  ),
];
const java =
  words(`alsa-lib giflib libdeflate libexpat libiconv libjpeg-turbo libwebp-base graphite2 icu lerc libpng libxcb
  pcre2 pixman freetype libglib libtiff fontconfig lcms2 libcups cairo harfbuzz openjdk`);
const reads = words('htslib samtools snakemake-wrapper-utils');
const newC = words(
  'ca-certificates libgomp _openmp_mutex libgcc libgcc-ng bzip2 libzlib ncurses openssl libstdcxx zstd',
);

/** Names of the packages of each environment. */
export const environments: readonly (readonly string[])[] = [
  // Reads aligned and sorted, with tools in Java.
  [
    ...[...fonts, ...c, ...net, ...oldPython, ...oldX, ...java, ...reads],
    ...words('libstdcxx-ng expat zlib libxcrypt perl bwa fgbio-minimal picard-slim'),
  ],
  // A report of the quality of many samples.
  [
    ...[...fonts, ...newC, ...python],
    ...words(`mathjax python_abi libdeflate libexpat libgfortran5 libjpeg-turbo liblzma libmpdec libpng libwebp-base
      pthread-stubs xorg-libxau xorg-libxdmcp yaml expat lerc libfreetype6 libgfortran libxcb nspr zlib-ng libfreetype
      libopenblas libtiff nss sqlite attrs backports.zstd brotli-python certifi charset-normalizer click cpython fontconfig
      hpack humanfriendly humanize hyperframe idna lcms2 libblas markupsafe mdurl narwhals natsort networkx openjpeg packaging
      pygments pysocks python-dotenv pyyaml regex rpds-py snakemake-wrapper-utils tqdm typing_extensions zipp coloredlogs h2
      importlib-metadata jinja2 kaleido-core libcblas liblapack markdown-it-py pillow plotly pyaml-env python-gil referencing
      typing-extensions typing-inspection _python_abi3_support annotated-types jsonschema-specifications markdown numpy
      pydantic-core python-kaleido rich typeguard urllib3 colormath jsonschema polars-runtime-32 pydantic requests rich-click
      polars spectra tiktoken multiqc`),
  ],
  // Quality of reads.
  [
    ...[...fonts, ...c, ...oldPython, ...oldX, ...java],
    ...words(
      'libstdcxx-ng expat zlib gettext keyutils krb5 libedit perl snakemake-wrapper-utils fastqc',
    ),
  ],
  // Variants.
  [
    ...[...newC, ...net, ...python],
    ...words(`python_abi libdeflate libexpat libgfortran5 liblzma libmpdec icu libgfortran libxcrypt libopenblas perl libblas
      htslib libcblas snakemake-wrapper-utils gsl bcftools`),
  ],
  // Adapters cut.
  [
    ...[...c, ...oldPython],
    ...words(`python_abi isa-l libexpat libstdcxx-ng libxcrypt zlib-ng pbzip2 pigz pycparser python-isal python-zlib-ng cffi
      zstandard xopen dnaio cutadapt`),
  ],
  // Plots of coverage.
  [
    ...[...c, ...net, ...oldPython],
    ...words(`libstdcxx-ng python_abi lerc libbrotlicommon libdeflate libgfortran5 libjpeg-turbo libwebp-base libxcrypt
      pthread-stubs xorg-libxau xorg-libxdmcp libbrotlidec libbrotlienc libgfortran-ng libpng libxcb zlib brotli-bin freetype
      libopenblas libtiff alabaster brotli brotli-python certifi charset-normalizer colorama cycler deeptoolsintervals
      docutils idna imagesize kiwisolver lcms2 libblas markupsafe munkres openjpeg packaging py2bit pygments pyparsing pysocks
      pytz six snowballstemmer sphinxcontrib-jsmath tabulate tenacity unicodedata2 zipp babel fonttools importlib-metadata
      jinja2 libcblas liblapack pillow plotly pysam python-dateutil urllib3 numpy requests contourpy pybigwig scipy
      matplotlib-base deeptools numpydoc sphinxcontrib-applehelp sphinxcontrib-devhelp sphinxcontrib-htmlhelp
      sphinxcontrib-qthelp sphinx sphinxcontrib-serializinghtml`),
  ],
  // Reads aligned by another tool.
  [
    ...[...c, ...net, ...oldPython, ...reads],
    ...words(
      'libstdcxx-ng python_abi icu libdeflate libiconv libxcrypt libxml2 perl zlib libhwloc tbb bowtie2',
    ),
  ],
  // Methylation.
  [
    ...[...newC, ...net, ...python],
    ...words(`_libgcc_mutex kernel-headers_linux-64 python_abi sysroot_linux-64 libdeflate libexpat liblzma libmpdec coreutils
      k8 libstdcxx-ng libxcrypt minimap2 perl bowtie2 hisat2 htslib samtools bismark`),
  ],
  // Proteins aligned.
  words('libgomp libzlib _openmp_mutex libgcc libsqlite libstdcxx diamond'),
  // Structural variants.
  [
    ...[...c, ...net, ...oldPython],
    ...words(`libstdcxx-ng icu libdeflate libexpat libgfortran5 libxcrypt libgfortran-ng perl zlib boost-cpp libopenblas
      libblas snakemake-wrapper-utils htslib libcblas delly gsl bcftools`),
  ],
  // Variants called by a tool in Java.
  [
    ...[...fonts, ...newC, ...oldPython, ...x, ...java],
    ...words(`python_abi keyutils liblzma libxcrypt libedit libfreetype6 libstdcxx-ng krb5 libcrc32c libfreetype
      google-cloud-sdk google-crc32c packaging snakemake-wrapper-utils xorg-libxrandr libharfbuzz libharfbuzz-devel gatk4`),
  ],
  // Intervals.
  [...[...c, ...net], ...words('libgcc libdeflate liblzma libstdcxx libstdcxx-ng bedtools htslib')],
  // A database of sequences.
  [
    ...[...c, ...net],
    ...words(`libgcc libiconv libstdcxx libasprintf libgettextpo libsqlite libstdcxx-ng libunistring libxcrypt ncbi-vdb zlib
      libidn2 perl perl-common-sense perl-compress-raw-bzip2 perl-compress-raw-zlib perl-exporter perl-exporter-tiny
      perl-extutils-makemaker perl-io-zlib perl-list-moreutils-xs perl-parent perl-scalar-list-utils perl-storable wget curl
      entrez-direct perl-carp perl-encode perl-list-moreutils perl-types-serialiser perl-io-compress perl-json-xs
      perl-pathtools perl-archive-tar perl-json blast`),
  ],
  // Reads aligned by a third tool.
  [
    ...[...fonts, ...c, ...net, ...oldPython, ...oldX, ...java, ...reads],
    ...words('libgcc libstdcxx libstdcxx-ng expat zlib libxcrypt bwa-mem2 picard-slim'),
  ],
  // Reads filtered.
  [
    ...[...c, ...net, ...oldPython, ...reads],
    ...words('libstdcxx-ng python_abi libdeflate libxcrypt pysam bellerophon'),
  ],
  // Methylation, with tools in Java.
  [
    ...[...fonts, ...c, ...net, ...python, ...x, ...java, ...reads],
    ...words(`python_abi libgcc liblzma libmpdec libstdcxx libstdcxx-ng libxcrypt zlib bwa-mem2 libfreetype6 perl bwa
      libfreetype xorg-libxrandr toolshed bwameth picard-slim`),
  ],
  // Long reads cut, with a compiler.
  words(`compiler-rt22_linux-64 kernel-headers_linux-64 libgcc-devel_linux-64 libgomp libzlib llvm-openmp tzdata _openmp_mutex
    compiler-rt_linux-64 sysroot_linux-64 zlib zstd ld_impl_linux-64 libgcc binutils_impl_linux-64 libiconv liblzma libstdcxx
    binutils compiler-rt22 libcompiler-rt libxml2-16 compiler-rt libxml2 libllvm22 libclang-cpp22.1 clang-22
    clang_impl_linux-64 clang chopper`),
  // Pictures.
  [
    ...[...fonts, ...newC.filter(name => name !== 'libgcc-ng'), ...python],
    ...words(`python_abi libdeflate libexpat libiconv libjpeg-turbo liblzma libmpdec libwebp-base pthread-stubs xorg-libice
      xorg-libxau xorg-libxdmcp icu lerc libpng libxcb pcre2 pixman xorg-libsm zlib-ng libfreetype6 libglib libtiff
      xorg-libx11 lcms2 libfreetype openjpeg xorg-libxext xorg-libxrender defusedxml fontconfig pillow pycparser webencodings
      cairo cffi tinycss2 cairocffi cssselect2 cairosvg`),
  ],
  // Genes of ribosomes.
  [
    ...[...newC, ...oldPython],
    ...words(`python_abi seqkit taxonkit zlib aragorn gzip libiconv liblzma make unzip bedtools c-ares icu libasprintf
      libgettextpo liblzma-devel libstdcxx-ng libxcrypt transtermhp xz-gpl-tools xz-tools gmp libssh2 libxml2-16 perl
      any2fasta diamond infernal libxml2 mpfr perl-exporter-tiny perl-file-which perl-list-moreutils-xs perl-path-tiny sqlite
      ziggypep archspec aria2 gawk packaging perl-list-moreutils mmseqs2 pyrodigal barrnap`),
  ],
  // Reads sorted.
  [
    ...[...c, ...net],
    ...words(
      `libstdcxx-ng icu libdeflate snappy xz zlib boost-cpp curl staden_io_lib libmaus2 biobambam`,
    ),
  ],
];
