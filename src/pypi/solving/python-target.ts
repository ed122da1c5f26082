/** The Python and the system that wheels are chosen for. */
export interface PythonTarget {
  /** `3.12.4` */
  readonly version: string;
  readonly machine: 'x86_64' | 'aarch64';
  /** The version of the C library, such as `2.36`. */
  readonly glibc: string;
}

/**
 * Returns a program that answers what uv asks a Python about itself, so that uv needs none on this machine. It is a shell script: uv
 * runs it with a program for Python, which it ignores. Source: uv, `get_interpreter_info.py`.
 */
export function pythonStandIn(target: PythonTarget): string {
  const { version, machine } = target;
  const short = shortVersion(version);
  const [major = 2, minor = 17] = target.glibc.split('.').map(Number);
  const lib = `/opt/conda/lib/python${short}`;
  const program = `/opt/conda/bin/python${short}`;
  const facts = {
    result: 'success',
    markers: {
      implementation_name: 'cpython',
      implementation_version: version,
      os_name: 'posix',
      platform_machine: machine,
      platform_python_implementation: 'CPython',
      platform_release: '',
      platform_system: 'Linux',
      platform_version: '',
      python_full_version: version,
      python_version: short,
      sys_platform: 'linux',
    },
    sys_base_prefix: '/opt/conda',
    sys_base_exec_prefix: '/opt/conda',
    sys_prefix: '/opt/conda',
    sys_base_executable: program,
    sys_executable: program,
    sys_path: [],
    site_packages: [],
    stdlib: lib,
    extension_suffixes: [],
    standalone: false,
    scheme: {
      platlib: `${lib}/site-packages`,
      purelib: `${lib}/site-packages`,
      include: `/opt/conda/include/python${short}`,
      scripts: '/opt/conda/bin',
      data: '/opt/conda',
    },
    virtualenv: { purelib: lib, platlib: lib, include: 'include', scripts: 'bin', data: '' },
    os: { name: 'manylinux', major, minor },
    arch: machine,
    cpu_info: { detected: { kind: 'flags', flags: '' } },
    manylinux_compatible: true,
    gil_disabled: false,
    debug_enabled: false,
    pointer_size: '64',
  };
  // No text of the response has a quote: versions were checked.
  return `#!/bin/sh\nprintf '%s\\n' '${JSON.stringify(facts)}'\n`;
}

/** Returns `3.12` for `3.12.4`. */
function shortVersion(version: string): string {
  return version.split('.').slice(0, 2).join('.');
}

/** Returns whether a text is the full version of a Python that wheels can be chosen for. */
export function isPythonVersion(text: string): boolean {
  return /^3\.\d{1,3}\.\d{1,3}(?:(?:a|b|rc)\d{1,3})?$/.test(text);
}

/**
 * Returns how well a wheel fits: the lower the better; undefined for a wheel that does not run there. Source: PyPA specifications,
 * Platform compatibility tags; the order is that of `packaging.tags`.
 */
export function fitOfWheel(fileName: string, target: PythonTarget): number | undefined {
  const [python = '', abi = '', platform = ''] = fileName
    .replace(/\.whl$/, '')
    .split('-')
    .slice(-3);
  const minor = Number(target.version.split('.')[1]);
  const fits = platform.split('.').flatMap(one => {
    const place = platformPlace(one, target);
    if (place === undefined) return [];
    return python.split('.').flatMap(tag =>
      abi.split('.').flatMap(abiTag => {
        const rank = pythonPlace(tag, abiTag, minor, one === 'any');
        return rank === undefined ? [] : [rank * 1000 + place];
      }),
    );
  });
  return fits.length === 0 ? undefined : Math.min(...fits);
}

/** Places of platforms: the newest manylinux first, then plain linux, then any. */
function platformPlace(tag: string, { machine, glibc }: PythonTarget): number | undefined {
  if (tag === 'any') return 999;
  if (tag === `linux_${machine}`) return 998;
  const old = { manylinux1: 5, manylinux2010: 12, manylinux2014: 17 } as const;
  const [, name = '', versioned, of] =
    /^(manylinux(?:1|2010|2014|_2_(\d{1,3})))_(x86_64|aarch64)$/.exec(tag) ?? [];
  if (of !== machine) return undefined;
  const minor = versioned === undefined ? old[name as keyof typeof old] : Number(versioned);
  const here = Number(glibc.split('.')[1]);
  return minor <= here ? here - minor : undefined;
}

const lastWithLetter = 7;

/** Places of interpreters: that of the version itself, then the stable interface of it and of older ones, then any Python. */
function pythonPlace(
  python: string,
  abi: string,
  minor: number,
  isAny: boolean,
): number | undefined {
  const cp = /^cp3(\d{1,3})$/.exec(python)?.[1];
  if (cp !== undefined) {
    const wanted = Number(cp);
    // Until Python 3.7, the memory allocator had a letter.
    const usual = `cp3${minor}${minor <= lastWithLetter ? 'm' : ''}`;
    if (wanted === minor && abi === usual) return 0;
    if (abi === 'abi3' && wanted <= minor) return 1 + (minor - wanted);
    if (wanted === minor && abi === 'none') return 100;
    return undefined;
  }
  const py = /^py3(\d{0,3})$/.exec(python)?.[1];
  if (py === undefined || abi !== 'none') return undefined;
  // `py312`, `py3`, `py311` and so on.
  if (py === '') return isAny ? 301 : 201;
  const wanted = Number(py);
  if (wanted > minor) return undefined;
  return (isAny ? 300 : 200) + (wanted === minor ? 0 : 1 + minor - wanted);
}
