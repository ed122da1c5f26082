import { createHash } from 'node:crypto';
import { compareTexts } from '../../foundation/text.ts';

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

/** What the choice of layers depends on. */
export interface GroupedPackage {
  readonly name: string;
  /** Bytes of the package's own layer. */
  readonly size: number;
}

/**
 * Layers of packages in one image. The classic store of Docker takes 125 layers: this leaves room for the base image and
 * for injected layers.
 */
export const mostPackageLayers = 90;
/** Of {@link mostPackageLayers}, those that packages share when there are more packages than layers. */
const sharedLayers = 24;

// A package keeps its class in most new versions.
const sizeClasses = [64 * 1024, 1024 * 1024, 16 * 1024 * 1024];
const mostPopular = 60;

const ranks = new Map(popularNames.map((name, rank) => [name, rank]));

/**
 * Returns the packages of each layer, the lowest layer first: the most popular packages are below, because stores share
 * a layer only together with all layers below it. The packages of a layer are sorted by name.
 *
 * Each package has its own layer if there are enough. Otherwise large and popular packages do, and the name of each
 * other package selects the layer that it shares. So the choice depends on the packages of the image only, and a new version of
 * one package changes one layer.
 *
 * @param most number of layers. Default: {@link mostPackageLayers}
 */
export function groupPackages<P extends GroupedPackage>(
  packages: readonly P[],
  most: number = mostPackageLayers,
): P[][] {
  const sorted = [...packages].sort(byPopularity);
  if (sorted.length <= most) return sorted.map(one => [one]);
  const worthiest = [...sorted].sort((one, other) => worthOf(other) - worthOf(one));
  const common = Math.ceil((most * sharedLayers) / mostPackageLayers);
  const alone = new Set(worthiest.slice(0, most - common));
  const shared = new Map<number, P[]>();
  for (const one of sorted) {
    if (alone.has(one)) continue;
    const place = placeOf(one.name, common);
    shared.set(place, [...(shared.get(place) ?? []), one]);
  }
  const groups = [...shared]
    .sort(([one], [other]) => one - other)
    .map(([, members]) => members.sort(byName));
  return [...sorted.filter(one => alone.has(one)).map(one => [one]), ...groups];
}

/** Layers that packages of a second kind have at least, if there are so many of them. */
const leastAddedLayers = 30;

/** Returns how many of {@link mostPackageLayers} the packages of a second kind have, which lie above the others. */
export function layersOfAdded(packages: number, added: number): number {
  return Math.min(added, Math.max(leastAddedLayers, mostPackageLayers - packages));
}

/** The larger and the more popular, the more a separate layer saves. */
function worthOf({ name, size }: GroupedPackage): number {
  const rank = ranks.get(name);
  const popularity = rank === undefined ? 0 : rank < mostPopular ? 2 : 1;
  return sizeClasses.filter(bytes => size >= bytes).length + popularity;
}

function byPopularity(one: GroupedPackage, other: GroupedPackage): number {
  return rankOf(one) - rankOf(other) || byName(one, other);
}

function rankOf({ name }: GroupedPackage): number {
  return ranks.get(name) ?? popularNames.length;
}

function byName({ name: one }: GroupedPackage, { name: other }: GroupedPackage): number {
  return compareTexts(one, other);
}

function placeOf(name: string, places: number): number {
  return createHash('sha256').update(name).digest().readUInt32BE(0) % places;
}
