/**
 * Packages that many environments of conda-forge and Bioconda contain, the most common first. They are the lowest layers
 * of an image. A change of this list gives images other layers, so other digests: see docs/build-key.md.
 */
export const popularNames: readonly string[] = `
_libgcc_mutex _openmp_mutex libgcc libgcc-ng libgomp libstdcxx libstdcxx-ng libzlib zlib bzip2 ca-certificates openssl
libffi liblzma xz ncurses libsqlite sqlite readline tk libuuid libexpat libxcrypt libnsl ld_impl_linux-64
ld_impl_linux-aarch64 tzdata python python_abi setuptools wheel pip certifi libgfortran libgfortran5 libgfortran-ng
libblas libcblas liblapack libopenblas numpy icu libiconv libxml2 libxml2-16 zstd lz4-c libdeflate krb5 keyutils
libedit c-ares libnghttp2 libssh2 libev libcurl curl libpng libjpeg-turbo libtiff libwebp-base lerc jpeg freetype
libfreetype libfreetype6 libxcb xorg-libxau xorg-libxdmcp pthread-stubs fontconfig expat pcre2 libglib gettext
perl libperl pandas python-dateutil pytz python-tzdata six scipy packaging typing_extensions urllib3 requests
charset-normalizer idna pysocks brotli-python cffi pycparser cryptography pyyaml yaml click colorama jinja2 markupsafe
zipp importlib-metadata attrs tqdm platformdirs h2 hpack hyperframe htslib samtools bcftools bedtools libhwloc
joblib threadpoolctl scikit-learn pyparsing kiwisolver cycler fonttools contourpy pillow lcms2 openjpeg
matplotlib-base matplotlib munkres unicodedata2 pysam biopython llvm-openmp _sysroot_linux-64_curr_repodata_hack
kernel-headers_linux-64 sysroot_linux-64 binutils_impl_linux-64 binutils_linux-64 gcc_impl_linux-64 gcc_linux-64
gxx_impl_linux-64 gfortran_impl_linux-64 libgcc-devel_linux-64 libstdcxx-devel_linux-64 libsanitizer make sed gsl bwidget
tktable xorg-libx11 xorg-libxext xorg-libxrender xorg-libxt xorg-libice xorg-libsm pixman cairo harfbuzz graphite2
fribidi pango r-base openjdk giflib alsa-lib libcups hdf5 libaec libnetcdf isa-l libabseil libprotobuf re2 snappy
libarrow pyarrow aws-c-common gflags glog libevent libthrift tbb mkl cuda-version libcublas pytorch llvmlite
numba networkx fsspec psutil
`
  .trim()
  .split(/\s+/);
