//! Python, JavaScript, Perl and Ruby: the names that start programs, run text or write files.

use super::tokens::Style;
use crate::shell::WriteKind;
use crate::word_list::words;

/// The effect of calling a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameEffect {
    Nothing,
    /// A module of such names: only its members are followed.
    Module,
    /// Runs or reaches something that is not followed.
    Hidden,
    /// Starts a program.
    Runs,
    /// Writes the files that these arguments name.
    Writes(WriteKind, &'static [usize]),
    Moves,
    /// Opens the file that this argument names; the mode is behind it.
    Open(usize),
    PerlOpen,
    /// Writes the path that it belongs to.
    Own(WriteKind),
    OwnOpen,
    /// Opens a database: a file that is written if the code changes something.
    Database,
}

use NameEffect::{
    Database, Hidden, Module, Moves, Nothing, Open, Own, OwnOpen, PerlOpen, Runs, Writes,
};
use WriteKind::{Change, Delete, DeleteTree, WriteBelow};

pub(super) struct Language {
    pub(super) name: &'static str,
    pub(super) style: Style,
    /// Whether calls can be written without brackets.
    pub(super) calls_without_brackets: bool,
    /// `{ execSync } = require(…)` gives a name its own meaning.
    pub(super) unpacks_names: bool,
    /// `system("git", "push")` has one word in each argument.
    pub(super) lists_words: bool,
    /// Names and what they do; the first row that fits counts. `a*` is any name that begins so, `*a` any whose
    /// last part is that.
    names: &'static [(NameEffect, &'static [&'static str])],
}

impl Language {
    /// The effect of a name, if it is known.
    pub(super) fn does(&self, name: &str, text: &str) -> Option<NameEffect> {
        let last = name.rsplit('.').next().unwrap_or(name);
        let fits = |pattern: &str| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(end), _) => last == end,
            (None, Some(start)) => name.starts_with(start),
            (None, None) => name == pattern,
        };
        let mut rows = self.names.iter();
        let found = rows
            .find(|(_, list)| list.iter().any(|pattern| fits(pattern)))
            .map(|(does, _)| *does)?;
        // Patterns have a method of this name.
        let pattern =
            self.style == Style::JavaScript && last == "exec" && !text.contains("child_process");
        Some(if pattern { Nothing } else { found })
    }
}

pub(super) const PYTHON: Language = Language {
    name: "python",
    style: Style::Python,
    calls_without_brackets: false,
    unpacks_names: false,
    lists_words: false,
    names: &[
        (
            Nothing,
            words!(
                "os.path* os.environ* os.getcwd os.listdir os.walk os.scandir os.stat os.lstat os.sep \
            os.linesep os.name os.getpid os.getuid os.getenv os.cpu_count os.access os.R_OK \
            os.W_OK os.uname os.fspath os.devnull os.readlink os.get_terminal_size os.isatty \
            os.curdir os.DirEntry os.PathLike os._exit os.kill os.getloadavg os.urandom os.O_*"
            ),
        ),
        (Runs, words!("os.system os.popen")),
        (Writes(Delete, &[0]), words!("os.remove os.unlink os.rmdir")),
        (Moves, words!("os.rename os.replace")),
        (Writes(Change, &[0]), words!("os.mkdir os.makedirs os.chmod os.utime os.truncate")),
        (Writes(Change, &[1]), words!("os.symlink os.link")),
        (Module, words!("os")),
        (Hidden, words!("os.*")),
        (
            Runs,
            words!(
                "subprocess.run subprocess.call subprocess.check_call subprocess.check_output \
            subprocess.Popen subprocess.getoutput subprocess.getstatusoutput"
            ),
        ),
        (
            Nothing,
            words!(
                "subprocess.PIPE subprocess.DEVNULL subprocess.STDOUT subprocess.CalledProcessError \
            subprocess.TimeoutExpired"
            ),
        ),
        (Module, words!("subprocess")),
        (Hidden, words!("subprocess.*")),
        (Nothing, words!("shutil.which shutil.disk_usage shutil.get_terminal_size")),
        (Writes(WriteBelow, &[1]), words!("shutil.copytree")),
        (Writes(Change, &[1]), words!("shutil.copy*")),
        (Moves, words!("shutil.move")),
        (Writes(DeleteTree, &[0]), words!("shutil.rmtree")),
        (Module, words!("shutil")),
        (Hidden, words!("shutil.*")),
        (Database, words!("sqlite3.connect")),
        (
            Open(0),
            words!(
                "open io.open codecs.open gzip.open bz2.open lzma.open tarfile.open zipfile.ZipFile \
            ZipFile"
            ),
        ),
        (Nothing, words!("urllib.request.urlopen Image.open")),
        (Hidden, words!("webbrowser.*")),
        (OwnOpen, words!("*open")),
        (Own(Change), words!("*write_text *write_bytes")),
        (Own(Delete), words!("*unlink *rmdir")),
        (Own(Change), words!("*touch *mkdir *chmod *symlink_to *hardlink_to")),
        (Own(Delete), words!("*rename")),
        (Writes(Change, &[1]), words!("*urlretrieve")),
        (
            Writes(Change, &[0]),
            words!("*savefig *to_csv *to_json *to_excel *to_parquet *to_pickle"),
        ),
        (Hidden, words!("*extractall *unpack_archive")),
        (Nothing, words!("platform.system re.compile regex.compile ast.*")),
        (
            Hidden,
            words!(
                "compile eval exec execfile __import__ globals locals vars breakpoint builtins* \
            __builtins__* sys.modules"
            ),
        ),
        (Nothing, words!("sys.path*")),
        (
            Hidden,
            words!(
                "sys.meta_path *__dict__ *__globals__ *__subclasses__ *__getattribute__ *__loader__ \
            *__self__ *__call__ *__builtins__ *system *popen *Popen *check_output *check_call \
            *getoutput *create_subprocess_exec *create_subprocess_shell *subprocess_exec \
            *subprocess_shell *execv *execvp *execlp *load_module *FunctionType *attrgetter \
            *methodcaller"
            ),
        ),
        (Nothing, words!("importlib.metadata* importlib.util.find_spec")),
        (
            Hidden,
            words!(
                "importlib* runpy* ctypes* cffi* pty* posix posix.* _posixsubprocess* code.* codeop* \
            marshal* pickle.load* pexpect* plumbum* sh sh.* git git.* pygit2* dulwich* \
            fileinput* timeit* cProfile* pdb* multiprocessing.util* fabric* invoke* *fork_exec \
            commands* *_run_code"
            ),
        ),
    ],
};

pub(super) const JAVASCRIPT: Language = Language {
    name: "node",
    style: Style::JavaScript,
    calls_without_brackets: false,
    unpacks_names: true,
    lists_words: false,
    names: &[
        (Runs, words!("*execSync *exec *execFile *execFileSync *spawn *spawnSync")),
        (Hidden, words!("*fork")),
        (Writes(Change, &[0]), words!("Bun.write")),
        (Hidden, words!("Bun.$ Deno.Command Deno.run")),
        (
            Writes(Change, &[0]),
            words!(
                "*writeFile *writeFileSync *writeTextFile *writeTextFileSync *appendFile \
            *appendFileSync *createWriteStream *outputFileSync *writeJsonSync"
            ),
        ),
        (Writes(DeleteTree, &[0]), words!("*rm *rmSync *rmdir *rmdirSync *removeSync")),
        (Writes(Delete, &[0]), words!("*unlink *unlinkSync")),
        (Moves, words!("*rename *renameSync")),
        (Writes(Change, &[0]), words!("*mkdir *mkdirSync")),
        (Writes(Change, &[1]), words!("*copyFile *copyFileSync")),
        (Writes(WriteBelow, &[1]), words!("fs.cp *cpSync")),
        (Writes(Change, &[1]), words!("*symlinkSync *linkSync")),
        (Writes(Change, &[0]), words!("*truncateSync *chmodSync")),
        (Open(0), words!("*openSync fs.open")),
        (
            Hidden,
            words!(
                "eval Function *constructor Reflect* globalThis* global global.* module process \
            process.binding process._linkedBinding process.dlopen process.mainModule* \
            process.getBuiltinModule vm* *runInNewContext *runInThisContext *createRequire \
            Worker *Worker execa* zx* shelljs* WebAssembly*"
            ),
        ),
    ],
};

pub(super) const PERL: Language = Language {
    name: "perl",
    style: Style::Perl,
    calls_without_brackets: true,
    unpacks_names: false,
    lists_words: true,
    names: &[
        (Runs, words!("` system exec")),
        (Hidden, words!("*system")),
        (Runs, words!("readpipe")),
        (PerlOpen, words!("open")),
        (Hidden, words!("*open2 *open3 IPC.* eval syscall require do fork")),
        (Writes(Delete, &[0]), words!("unlink rmdir")),
        (Writes(Change, &[0]), words!("mkdir truncate")),
        (Moves, words!("rename")),
        (Writes(Change, &[1]), words!("symlink link *copy")),
        (Moves, words!("*move")),
        (Hidden, words!("*remove_tree *rmtree")),
        (Writes(Change, &[0]), words!("*make_path *mkpath *write_file")),
        (Nothing, words!("File.Copy*")),
        (Hidden, words!("POSIX* sysopen *can Git* CORE* main*")),
    ],
};

pub(super) const RUBY: Language = Language {
    name: "ruby",
    style: Style::Ruby,
    calls_without_brackets: true,
    unpacks_names: false,
    lists_words: true,
    names: &[
        (Runs, words!("` system exec spawn Kernel.system Kernel.exec Process.spawn")),
        (
            Hidden,
            words!(
                "Open3.* PTY* Kernel* Process* *popen *send *public_send *__send__ *method *const_get \
            *eval *instance_eval *class_eval *module_eval *instance_exec *define_method binding \
            load fork syscall Fiddle* *dlopen open URI.open IO.read IO.readlines IO.foreach"
            ),
        ),
        (Open(0), words!("File.open File.new")),
        (Writes(Change, &[0]), words!("File.write File.binwrite IO.write IO.binwrite")),
        (Writes(Delete, &[0]), words!("File.delete File.unlink")),
        (Moves, words!("File.rename")),
        (Writes(Change, &[0]), words!("File.truncate")),
        (Writes(Change, &[1]), words!("File.symlink File.link File.chmod")),
        (Writes(Change, &[0]), words!("Dir.mkdir")),
        (Writes(Delete, &[0]), words!("Dir.rmdir Dir.delete")),
        (Writes(Change, &[1]), words!("IO.copy_stream")),
        (Writes(DeleteTree, &[0]), words!("FileUtils.rm_r* FileUtils.remove_dir")),
        (Writes(Delete, &[0]), words!("FileUtils.rm*")),
        (Writes(WriteBelow, &[1]), words!("FileUtils.cp_r")),
        (Writes(Change, &[1]), words!("FileUtils.cp FileUtils.copy")),
        (Moves, words!("FileUtils.mv FileUtils.move")),
        (Writes(Change, &[0]), words!("FileUtils.mkdir* FileUtils.touch")),
        (Writes(Change, &[1]), words!("FileUtils.ln* FileUtils.install")),
        (Hidden, words!("FileUtils* Pathname* Shell* Git* Rugged* ObjectSpace*")),
    ],
};
