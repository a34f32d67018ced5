//! Python, JavaScript, Perl and Ruby: the names that start programs, run text or write files.

use super::tokens::Style;
use crate::shell::How;
use crate::word_list::words;

/// What a name does when it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Nothing,
    /// A module of such names: only its members are followed.
    Module,
    /// Runs or reaches something that is not followed.
    Hidden,
    /// Starts a program.
    Runs,
    /// Writes the files that these arguments name.
    Writes(How, &'static [usize]),
    Moves,
    /// Opens the file that this argument names; the mode is behind it.
    Open(usize),
    PerlOpen,
    /// Writes the path that it belongs to.
    Own(How),
    OwnOpen,
    /// Opens a database: a file that is written if the code changes something.
    Database,
}

use Does::{Database, Hidden, Module, Moves, Nothing, Open, Own, OwnOpen, PerlOpen, Runs, Writes};
use How::{Change, Delete, DeleteTree, Fill};

/// A language.
pub(super) struct Language {
    pub(super) name: &'static str,
    pub(super) style: Style,
    /// Calls may stand without brackets.
    pub(super) calls_without_brackets: bool,
    /// `{ execSync } = require(…)` gives a name its own meaning.
    pub(super) unpacks_names: bool,
    /// `system("git", "push")` has one word in each argument.
    pub(super) lists_words: bool,
    /// Names and what they do; the first row that fits counts. `a*` is any name that begins so, `*a` any whose
    /// last part is that.
    names: &'static [(Does, &'static str)],
}

impl Language {
    /// What a name does, if it is known to do something.
    pub(super) fn does(&self, name: &str, text: &str) -> Option<Does> {
        let last = name.rsplit('.').next().unwrap_or(name);
        let fits = |pattern: &str| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(end), _) => last == end,
            (None, Some(start)) => name.starts_with(start),
            (None, None) => name == pattern,
        };
        let mut rows = self.names.iter();
        let found = rows.find(|(_, list)| words(list).any(fits)).map(|(does, _)| *does)?;
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
            "os.path* os.environ* os.getcwd os.listdir os.walk os.scandir os.stat os.lstat os.sep \
            os.linesep os.name os.getpid os.getuid os.getenv os.cpu_count os.access os.R_OK \
            os.W_OK os.uname os.fspath os.devnull os.readlink os.get_terminal_size os.isatty \
            os.curdir os.DirEntry os.PathLike os._exit os.kill os.getloadavg os.urandom os.O_*",
        ),
        (Runs, "os.system os.popen"),
        (Writes(Delete, &[0]), "os.remove os.unlink os.rmdir"),
        (Moves, "os.rename os.replace"),
        (Writes(Change, &[0]), "os.mkdir os.makedirs os.chmod os.utime os.truncate"),
        (Writes(Change, &[1]), "os.symlink os.link"),
        (Module, "os"),
        (Hidden, "os.*"),
        (
            Runs,
            "subprocess.run subprocess.call subprocess.check_call subprocess.check_output \
            subprocess.Popen subprocess.getoutput subprocess.getstatusoutput",
        ),
        (
            Nothing,
            "subprocess.PIPE subprocess.DEVNULL subprocess.STDOUT subprocess.CalledProcessError \
            subprocess.TimeoutExpired",
        ),
        (Module, "subprocess"),
        (Hidden, "subprocess.*"),
        (Nothing, "shutil.which shutil.disk_usage shutil.get_terminal_size"),
        (Writes(Fill, &[1]), "shutil.copytree"),
        (Writes(Change, &[1]), "shutil.copy*"),
        (Moves, "shutil.move"),
        (Writes(DeleteTree, &[0]), "shutil.rmtree"),
        (Module, "shutil"),
        (Hidden, "shutil.*"),
        (Database, "sqlite3.connect"),
        (
            Open(0),
            "open io.open codecs.open gzip.open bz2.open lzma.open tarfile.open zipfile.ZipFile \
            ZipFile",
        ),
        (Nothing, "urllib.request.urlopen Image.open"),
        (Hidden, "webbrowser.*"),
        (OwnOpen, "*open"),
        (Own(Change), "*write_text *write_bytes"),
        (Own(Delete), "*unlink *rmdir"),
        (Own(Change), "*touch *mkdir *chmod *symlink_to *hardlink_to"),
        (Own(Delete), "*rename"),
        (Writes(Change, &[1]), "*urlretrieve"),
        (Writes(Change, &[0]), "*savefig *to_csv *to_json *to_excel *to_parquet *to_pickle"),
        (Hidden, "*extractall *unpack_archive"),
        (Nothing, "platform.system re.compile regex.compile ast.*"),
        (
            Hidden,
            "compile eval exec execfile __import__ globals locals vars breakpoint builtins* \
            __builtins__* sys.modules",
        ),
        (Nothing, "sys.path*"),
        (
            Hidden,
            "sys.meta_path *__dict__ *__globals__ *__subclasses__ *__getattribute__ *__loader__ \
            *__self__ *__call__ *__builtins__ *system *popen *Popen *check_output *check_call \
            *getoutput *create_subprocess_exec *create_subprocess_shell *subprocess_exec \
            *subprocess_shell *execv *execvp *execlp *load_module *FunctionType *attrgetter \
            *methodcaller",
        ),
        (Nothing, "importlib.metadata* importlib.util.find_spec"),
        (
            Hidden,
            "importlib* runpy* ctypes* cffi* pty* posix posix.* _posixsubprocess* code.* codeop* \
            marshal* pickle.load* pexpect* plumbum* sh sh.* git git.* pygit2* dulwich* \
            fileinput* timeit* cProfile* pdb* multiprocessing.util* fabric* invoke* *fork_exec \
            commands* *_run_code",
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
        (Runs, "*execSync *exec *execFile *execFileSync *spawn *spawnSync"),
        (Hidden, "*fork"),
        (Writes(Change, &[0]), "Bun.write"),
        (Hidden, "Bun.$ Deno.Command Deno.run"),
        (
            Writes(Change, &[0]),
            "*writeFile *writeFileSync *writeTextFile *writeTextFileSync *appendFile \
            *appendFileSync *createWriteStream *outputFileSync *writeJsonSync",
        ),
        (Writes(DeleteTree, &[0]), "*rm *rmSync *rmdir *rmdirSync *removeSync"),
        (Writes(Delete, &[0]), "*unlink *unlinkSync"),
        (Moves, "*rename *renameSync"),
        (Writes(Change, &[0]), "*mkdir *mkdirSync"),
        (Writes(Change, &[1]), "*copyFile *copyFileSync"),
        (Writes(Fill, &[1]), "fs.cp *cpSync"),
        (Writes(Change, &[1]), "*symlinkSync *linkSync"),
        (Writes(Change, &[0]), "*truncateSync *chmodSync"),
        (Open(0), "*openSync fs.open"),
        (
            Hidden,
            "eval Function *constructor Reflect* globalThis* global global.* module process \
            process.binding process._linkedBinding process.dlopen process.mainModule* \
            process.getBuiltinModule vm* *runInNewContext *runInThisContext *createRequire \
            Worker *Worker execa* zx* shelljs* WebAssembly*",
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
        (Runs, "` system exec"),
        (Hidden, "*system"),
        (Runs, "readpipe"),
        (PerlOpen, "open"),
        (Hidden, "*open2 *open3 IPC.* eval syscall require do fork"),
        (Writes(Delete, &[0]), "unlink rmdir"),
        (Writes(Change, &[0]), "mkdir truncate"),
        (Moves, "rename"),
        (Writes(Change, &[1]), "symlink link *copy"),
        (Moves, "*move"),
        (Hidden, "*remove_tree *rmtree"),
        (Writes(Change, &[0]), "*make_path *mkpath *write_file"),
        (Nothing, "File.Copy*"),
        (Hidden, "POSIX* sysopen *can Git* CORE* main*"),
    ],
};

pub(super) const RUBY: Language = Language {
    name: "ruby",
    style: Style::Ruby,
    calls_without_brackets: true,
    unpacks_names: false,
    lists_words: true,
    names: &[
        (Runs, "` system exec spawn Kernel.system Kernel.exec Process.spawn"),
        (
            Hidden,
            "Open3.* PTY* Kernel* Process* *popen *send *public_send *__send__ *method *const_get \
            *eval *instance_eval *class_eval *module_eval *instance_exec *define_method binding \
            load fork syscall Fiddle* *dlopen open URI.open IO.read IO.readlines IO.foreach",
        ),
        (Open(0), "File.open File.new"),
        (Writes(Change, &[0]), "File.write File.binwrite IO.write IO.binwrite"),
        (Writes(Delete, &[0]), "File.delete File.unlink"),
        (Moves, "File.rename"),
        (Writes(Change, &[0]), "File.truncate"),
        (Writes(Change, &[1]), "File.symlink File.link File.chmod"),
        (Writes(Change, &[0]), "Dir.mkdir"),
        (Writes(Delete, &[0]), "Dir.rmdir Dir.delete"),
        (Writes(Change, &[1]), "IO.copy_stream"),
        (Writes(DeleteTree, &[0]), "FileUtils.rm_r* FileUtils.remove_dir"),
        (Writes(Delete, &[0]), "FileUtils.rm*"),
        (Writes(Fill, &[1]), "FileUtils.cp_r"),
        (Writes(Change, &[1]), "FileUtils.cp FileUtils.copy"),
        (Moves, "FileUtils.mv FileUtils.move"),
        (Writes(Change, &[0]), "FileUtils.mkdir* FileUtils.touch"),
        (Writes(Change, &[1]), "FileUtils.ln* FileUtils.install"),
        (Hidden, "FileUtils* Pathname* Shell* Git* Rugged* ObjectSpace*"),
    ],
};
