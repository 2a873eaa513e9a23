// swift-tools-version: 6.2
import PackageDescription

let swiftSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    // A newer C library deprecates what an older one has nothing else for.
    .treatWarning("DeprecatedDeclaration", as: .warning),
]

/// A C library of the system.
func library(
    _ name: String, _ pkgConfig: String? = nil, _ providers: [SystemPackageProvider]? = nil,
    in folder: String = "Sources/CLibraries"
) -> Target {
    .systemLibrary(name: name, path: "\(folder)/\(name)", pkgConfig: pkgConfig, providers: providers)
}

/// A dependency on a target that a trait turns on.
func with(_ trait: String, _ target: String) -> Target.Dependency {
    .target(name: target, condition: .when(traits: [trait]))
}

/// A module of the library, in `Sources`.
func module(_ name: String, uses modules: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: modules, swiftSettings: swiftSettings)
}

/// The tests of a module, or those that use one method, in `Tests/Methods`.
func tests(
    _ name: String, in folder: String = "Modules", of modules: [Target.Dependency] = [], exclude: [String] = []
) -> Target {
    .testTarget(
        name: name, dependencies: ["ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport"] + modules,
        path: "Tests/\(folder)/\(name)", exclude: exclude, swiftSettings: swiftSettings)
}

/// A program that tests run.
func program(_ name: String, uses modules: [Target.Dependency], exclude: [String] = []) -> Target {
    .executableTarget(
        name: name, dependencies: modules, path: "Tests/Programs/\(name)", exclude: exclude, swiftSettings: swiftSettings)
}

let package = Package(
    name: "Convoy",
    products: [
        .library(name: "Convoy", targets: ["Convoy"]),
        .library(name: "ConvoySecurity", targets: ["ConvoySecurity"]),
        .library(name: "ConvoyTransport", targets: ["ConvoyTransport"]),
        .library(name: "ConvoySerialization", targets: ["ConvoySerialization"]),
        .library(name: "ConvoyCookies", targets: ["ConvoyCookies"]),
        .library(name: "ConvoyCache", targets: ["ConvoyCache"]),
        .library(name: "ConvoyOperations", targets: ["ConvoyOperations"]),
        .library(name: "ConvoyDiagnostics", targets: ["ConvoyDiagnostics"]),
        .library(name: "ConvoyMigration", targets: ["ConvoyMigration"]),
        .library(name: "ConvoyDownloads", targets: ["ConvoyDownloads"]),
        .library(name: "ConvoySession", targets: ["ConvoySession"]),
        .library(name: "ConvoyRealtime", targets: ["ConvoyRealtime"]),
        .library(name: "ConvoyReachability", targets: ["ConvoyReachability"]),
        .library(name: "ConvoyObjectStorage", targets: ["ConvoyObjectStorage"]),
        .library(name: "ConvoyWorkflow", targets: ["ConvoyWorkflow"]),
        .library(name: "ConvoySharedQueue", targets: ["ConvoySharedQueue"]),
        // Empty without the trait `Postgres`.
        .library(name: "ConvoyPostgres", targets: ["ConvoyPostgres"]),
        .library(name: "ConvoyTestServer", targets: ["ConvoyTestServer"]),
        .library(name: "ConvoyUploads", targets: ["ConvoyUploads"]),
        // Empty without the trait `Images`.
        .library(name: "ConvoyImage", targets: ["ConvoyImage"]),
        // Empty without the trait `GTK`.
        .library(name: "ConvoyGTK", targets: ["ConvoyGTK"]),
        // Empty without the trait `WebKit`.
        .library(name: "ConvoyWebKit", targets: ["ConvoyWebKit"]),
        .executable(name: "convoy", targets: ["ConvoyTool"]),
    ],
    traits: [
        .trait(
            name: "Images",
            description: "Decoded, cached and processed pictures, in ConvoyImage. Needs gdk-pixbuf, libjpeg and Little CMS."),
        .trait(
            name: "GTK", description: "Widgets bound to requests, in ConvoyGTK. Needs GTK 4.", enabledTraits: ["Images"]),
        .trait(
            name: "WebKit", description: "Web views that load through the engine, in ConvoyWebKit. Needs WebKitGTK 6.",
            enabledTraits: ["GTK"]),
        .trait(name: "Postgres", description: "A shared queue on PostgreSQL, in ConvoyPostgres. Needs libpq."),
    ],
    targets: [
        library("CCurl", "libcurl", [.apt(["libcurl4-openssl-dev"]), .yum(["libcurl-devel"]), .brew(["curl"])]),
        library("COpenSSL", "openssl", [.apt(["libssl-dev"]), .yum(["openssl-devel"]), .brew(["openssl@3"])]),
        library("CZlib", "zlib", [.apt(["zlib1g-dev"]), .yum(["zlib-devel"]), .brew(["zlib"])]),
        library("CBrotli", "libbrotlidec", [.apt(["libbrotli-dev"]), .yum(["brotli-devel"]), .brew(["brotli"])]),
        library("CZstd", "libzstd", [.apt(["libzstd-dev"]), .yum(["libzstd-devel"]), .brew(["zstd"])]),
        library("CXML2", "libxml-2.0", [.apt(["libxml2-dev"]), .yum(["libxml2-devel"]), .brew(["libxml2"])]),
        library("CPSL", "libpsl", [.apt(["libpsl-dev"]), .yum(["libpsl-devel"]), .brew(["libpsl"])]),
        library("CSQLite", "sqlite3", [.apt(["libsqlite3-dev"]), .yum(["sqlite-devel"]), .brew(["sqlite"])]),
        library("CYAML", "yaml-0.1", [.apt(["libyaml-dev"]), .yum(["libyaml-devel"]), .brew(["libyaml"])]),
        library("CPostgres", "libpq", [.apt(["libpq-dev"]), .yum(["libpq-devel"]), .brew(["libpq"])]),
        library("CEpoll"),
        library(
            "CGdkPixbuf", "gdk-pixbuf-2.0",
            [.apt(["libgdk-pixbuf-2.0-dev"]), .yum(["gdk-pixbuf2-devel"]), .brew(["gdk-pixbuf"])]),
        library("CJPEG", "libjpeg", [.apt(["libjpeg-dev"]), .yum(["libjpeg-turbo-devel"]), .brew(["jpeg-turbo"])]),
        library("CLCMS", "lcms2", [.apt(["liblcms2-dev"]), .yum(["lcms2-devel"]), .brew(["little-cms2"])]),
        library("CGTK", "gtk4", [.apt(["libgtk-4-dev"]), .yum(["gtk4-devel"]), .brew(["gtk4"])]),
        library("CWebKit", "webkitgtk-6.0", [.apt(["libwebkitgtk-6.0-dev"]), .yum(["webkitgtk6.0-devel"])]),

        // What several others need and nobody outside sees: no product, and `package` at most.
        module("ConvoySupport", uses: ["CEpoll"]),
        module("ConvoySecurity", uses: ["COpenSSL", "ConvoySupport"]),
        module(
            "ConvoyTransport", uses: ["CCurl", "CEpoll", "CZlib", "CBrotli", "CZstd", "ConvoySecurity", "ConvoySupport"]),
        module("ConvoySerialization", uses: ["CZlib", "CXML2", "ConvoySupport"]),
        // SQLite, for those who keep something. No product either.
        module("ConvoyDatabase", uses: ["CSQLite", "ConvoySupport"]),
        module("ConvoyCookies", uses: ["CPSL", "ConvoyDatabase", "ConvoySupport"]),
        module("ConvoyCache", uses: ["ConvoyDatabase", "ConvoySecurity", "ConvoySupport"]),
        module("ConvoyReachability", uses: ["CEpoll", "ConvoySupport"]),
        module(
            "ConvoyOperations",
            uses: [
                "CEpoll", "ConvoyTransport", "ConvoySerialization", "ConvoySecurity", "ConvoyCookies", "ConvoyCache",
                "ConvoyReachability", "ConvoySupport",
            ]),
        // What is built on the event log and on the state of operations.
        module(
            "ConvoyDiagnostics",
            uses: [
                "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport", "ConvoyTransport",
            ]),
        module(
            "ConvoyDownloads",
            uses: [
                "CEpoll", "COpenSSL", "CXML2", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport",
            ]),
        module(
            "ConvoyUploads",
            uses: [
                "CEpoll", "ConvoyDatabase", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport", "ConvoyTransport",
            ]),
        module(
            "ConvoySession",
            uses: [
                "ConvoyCache", "ConvoyCookies", "ConvoyDownloads", "ConvoyOperations", "ConvoyReachability",
                "ConvoySecurity", "ConvoySerialization", "ConvoySupport", "ConvoyTransport", "ConvoyUploads",
            ]),
        module(
            "ConvoyRealtime",
            uses: [
                "ConvoyOperations", "ConvoyReachability", "ConvoySerialization", "ConvoySupport", "ConvoyTransport",
            ]),
        module(
            "Convoy",
            uses: [
                "ConvoyTransport", "ConvoySecurity", "ConvoySerialization", "ConvoyCookies", "ConvoyCache",
                "ConvoyDiagnostics", "ConvoyOperations", "ConvoyDownloads", "ConvoyReachability", "ConvoyRealtime",
                "ConvoySession", "ConvoySharedQueue", "ConvoyUploads",
            ]),
        // AFNetworking's names, for a program that is being ported. Not part of the umbrella.
        module(
            "ConvoyMigration",
            uses: [
                "ConvoyDiagnostics", "ConvoyDownloads", "ConvoyOperations", "ConvoyReachability", "ConvoyRealtime",
                "ConvoySecurity", "ConvoySerialization", "ConvoySession",
            ]),
        // Not part of the umbrella: only a program that stores objects needs it.
        module(
            "ConvoyObjectStorage",
            uses: [
                "CEpoll", "COpenSSL", "CXML2", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport", "ConvoyUploads",
            ]),
        // The queue that survives the process, of one process or of several.
        module(
            "ConvoySharedQueue",
            uses: [
                "CEpoll", "ConvoyDatabase", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport", "ConvoyTransport", "ConvoyUploads",
            ]),
        // Its store on PostgreSQL; empty without the trait `Postgres`.
        module("ConvoyPostgres", uses: ["CEpoll", "ConvoySharedQueue", "ConvoySupport", with("Postgres", "CPostgres")]),
        // Not part of the umbrella: a program that runs no manifests needs no libyaml.
        module(
            "ConvoyWorkflow",
            uses: [
                "CXML2", "CYAML", "ConvoyCookies", "ConvoyDatabase", "ConvoyDiagnostics", "ConvoyDownloads",
                "ConvoyObjectStorage", "ConvoyOperations", "ConvoyRealtime", "ConvoySecurity", "ConvoySerialization",
                "ConvoySupport",
                "ConvoyTransport",
            ]),
        // Not part of the umbrella: only a program that decodes images needs gdk-pixbuf, libjpeg and Little CMS.
        module(
            "ConvoyImage",
            uses: [
                "ConvoyCache", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport", with("Images", "CGdkPixbuf"), with("Images", "CJPEG"), with("Images", "CLCMS"),
            ]),
        // Not part of the umbrella, as only a program with windows needs GTK.
        module(
            "ConvoyGTK",
            uses: [
                "ConvoyDiagnostics", "ConvoyImage", "ConvoyOperations", "ConvoyRealtime", "ConvoySession", "ConvoySupport",
                "ConvoyTransport", with("GTK", "CGTK"),
            ]),
        module(
            "ConvoyWebKit",
            uses: [
                "ConvoyDiagnostics", "ConvoyGTK", "ConvoyOperations", "ConvoySerialization", "ConvoySupport",
                "ConvoyTransport", with("GTK", "CGTK"), with("WebKit", "CWebKit"),
            ]),
        module("ConvoyTestServer", uses: ["CEpoll", "COpenSSL", "ConvoySupport"]),
        .executableTarget(
            name: "ConvoyTool",
            dependencies: [
                "CEpoll", "Convoy", "ConvoyDiagnostics", "ConvoyObjectStorage", "ConvoySharedQueue", "ConvoySupport",
                "ConvoyWorkflow",
                with("Postgres", "ConvoyPostgres"),
            ],
            swiftSettings: swiftSettings),

        // Programs to read, which the tests run.
        .executableTarget(
            name: "ExampleReadme", dependencies: ["Convoy"], path: "Sources/Examples/Readme",
            swiftSettings: swiftSettings),
        .executableTarget(
            name: "ExampleSync", dependencies: ["Convoy"], path: "Sources/Examples/Sync", swiftSettings: swiftSettings),
        .executableTarget(
            name: "ExampleService", dependencies: ["Convoy"], path: "Sources/Examples/Service",
            swiftSettings: swiftSettings),
        .executableTarget(
            name: "ExamplePort", dependencies: ["Convoy"], path: "Sources/Examples/Port", swiftSettings: swiftSettings),
        // Says so and ends without the trait `GTK`.
        .executableTarget(
            name: "Gallery",
            dependencies: [
                "Convoy", "ConvoyGTK", "ConvoyImage", with("GTK", "CGTK"),
            ],
            path: "Sources/Examples/Gallery", swiftSettings: swiftSettings),

        // Makes the bodies that the decoder's tests decode. In the same Debian package as CBrotli.
        library(
            "CBrotliEncoder", "libbrotlienc", [.apt(["libbrotli-dev"]), .yum(["brotli-devel"]), .brew(["brotli"])],
            in: "Tests/Support"),
        .target(
            name: "ConvoyTestSupport", dependencies: ["CCurl", "CEpoll", "ConvoySupport"],
            path: "Tests/Support/ConvoyTestSupport", swiftSettings: swiftSettings),
        // What monitors must hear, for the tests of all that is made of operations.
        .target(
            name: "ConvoyStorySupport", dependencies: ["ConvoyOperations", "ConvoyTestSupport", "ConvoyTransport"],
            path: "Tests/Support/ConvoyStorySupport", swiftSettings: swiftSettings),
        // A second process for the tests of stores.
        program(
            "StoreProgram",
            uses: [
                "ConvoyCookies", "ConvoyCache", "ConvoyDownloads", "ConvoyOperations", "ConvoySharedQueue", "ConvoySupport",
                "ConvoyTestSupport", "ConvoyUploads", with("Postgres", "ConvoyPostgres"),
            ]),
        // All parsers, for a fuzzer.
        program(
            "FuzzProgram",
            uses: [
                "ConvoyCache", "ConvoyCookies", "ConvoyDatabase", "ConvoyDownloads", "ConvoyImage", "ConvoyObjectStorage",
                "ConvoyOperations", "ConvoyReachability", "ConvoyRealtime", "ConvoySecurity", "ConvoySerialization",
                "ConvoySharedQueue", "ConvoySupport", "ConvoyTransport", "ConvoyUploads", "ConvoyWorkflow",
            ], exclude: ["Corpora"]),
        tests(
            "ModelTests", in: "Methods",
            of: [
                "ConvoyOperations", "ConvoySharedQueue", "ConvoyTransport",
            ], exclude: ["Models"]),
        // What most programs do, for the tests that make its calls fail.
        program(
            "TortureProgram",
            uses: [
                "ConvoyCache", "ConvoyCookies", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity",
                "ConvoySerialization", "ConvoySharedQueue", "ConvoySupport", "ConvoyUploads",
                with("Postgres", "ConvoyPostgres"),
            ]),
        tests(
            "TortureTests", in: "Methods", of: ["ConvoyTool", "TortureProgram"], exclude: ["calls.h", "failing_calls.c"]),
        tests("FuzzTests", in: "Methods", of: ["ConvoyTool", "FuzzProgram"]),
        // Widgets on a display of their own, for the tests of the modules with widgets. Says so and ends without the trait `GTK`.
        program(
            "WidgetProgram",
            uses: [
                "ConvoyCookies", "ConvoyDiagnostics", "ConvoyGTK", "ConvoyWebKit", "ConvoyImage", "ConvoyOperations",
                "ConvoyRealtime", "ConvoySerialization", "ConvoySupport", "ConvoyTestServer", "ConvoyTestSupport",
                with("GTK", "CGTK"), with("WebKit", "CWebKit"),
            ]),
        tests("ConvoyTestServerTests"),
        tests("ConvoyTestSupportTests", in: "Support"),
        tests("ConvoySupportTests"),
        tests("ConvoySecurityTests", of: ["ConvoySecurity", "ConvoyOperations"]),
        tests("ConvoyDatabaseTests", of: ["ConvoyDatabase"]),
        tests("ConvoyCookiesTests", of: ["ConvoyCookies", "ConvoyDatabase", "StoreProgram"]),
        tests("ConvoyCacheTests", of: ["ConvoyCache", "ConvoyDatabase", "StoreProgram"]),
        tests("ConvoySerializationTests", of: ["ConvoySerialization", "CZlib"]),
        tests(
            "ConvoyTransportTests", of: ["ConvoyTransport", "ConvoySecurity", "CCurl", "CZlib", "CZstd", "CBrotliEncoder"]),
        tests(
            "ConvoyOperationsTests",
            of: [
                "ConvoyOperations", "ConvoyCookies", "ConvoyCache", "ConvoyDiagnostics", "ConvoyStorySupport",
            ], exclude: ["Retry/decisions.txt"]),
        // The engine on simulated threads, in every order.
        tests(
            "SimulationTests", in: "Methods",
            of: [
                "ConvoyDownloads", "ConvoyOperations", "ConvoyRealtime", "ConvoySerialization", "ConvoyTransport",
            ]),
        tests(
            "ConvoyDownloadsTests",
            of: [
                "ConvoyStorySupport", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoyTransport",
                "StoreProgram",
            ]),
        tests(
            "ConvoySessionTests",
            of: [
                "ConvoyStorySupport", "ConvoySession", "ConvoyCache", "ConvoyCookies", "ConvoyDiagnostics",
                "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoyTransport",
            ]),
        tests(
            "ConvoyRealtimeTests",
            of: [
                "ConvoyRealtime", "ConvoyOperations", "ConvoyReachability", "ConvoySerialization", "ConvoySession",
                "ConvoyStorySupport", "ConvoyTransport",
            ]),
        tests(
            "ConvoyObjectStorageTests",
            of: [
                "ConvoyObjectStorage", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization",
                "ConvoyTransport", "ConvoyUploads",
            ]),
        tests(
            "ConvoyReachabilityTests", of: ["ConvoyDownloads", "ConvoyOperations", "ConvoyReachability", "ConvoySession"]),
        tests("ConvoyRoundTripTests", in: "Methods", of: ["ConvoyOperations", "ConvoyTransport"]),
        // The executor of the caller after each public async function.
        tests(
            "ExecutorTests", in: "Methods",
            of: [
                "Convoy", "ConvoyImage", "ConvoyObjectStorage", "ConvoySharedQueue", "ConvoyWorkflow",
            ]),
        // Recorded responses with faults.
        tests(
            "NetworkFaultTests", in: "Methods",
            of: [
                "CEpoll", "COpenSSL", "ConvoyOperations", "ConvoySerialization", "ConvoyTransport",
            ], exclude: ["Recordings"]),
        tests(
            "ConvoyImageTests",
            of: [
                "ConvoyImage", "ConvoyOperations", with("Images", "CGdkPixbuf"), with("Images", "CLCMS"),
            ]),
        tests(
            "ConvoyGTKTests",
            of: [
                "ConvoyGTK", "ConvoyImage", "ConvoyOperations", "ConvoyRealtime", "Gallery", "WidgetProgram",
                with("GTK", "CGTK"),
            ], exclude: ["Screenshots"]),
        tests(
            "ConvoyWebKitTests",
            of: [
                "ConvoyWebKit", "ConvoyOperations", "WidgetProgram", with("GTK", "CGTK"), with("WebKit", "CWebKit"),
            ]),
        tests(
            "ConvoyUploadsTests",
            of: [
                "ConvoyUploads", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoySharedQueue",
                "ConvoyTransport", "StoreProgram",
            ]),
        tests(
            "ConvoySharedQueueTests",
            of: [
                "ConvoySharedQueue", "ConvoyDownloads", "ConvoyOperations", "ConvoySecurity", "ConvoyUploads",
                "StoreProgram",
                with("Postgres", "ConvoyPostgres"),
            ], exclude: ["Local/EarlierQueue.sql"]),
        tests(
            "ConvoyWorkflowTests",
            of: ["ConvoyWorkflow", "ConvoyOperations", "ConvoySecurity", "ConvoySerialization", "ConvoyTransport"]),
        tests(
            "ConvoyToolTests",
            of: [
                "ConvoyTool", "Convoy", "ConvoyMigration", "ConvoySharedQueue", "ConvoyWorkflow",
                with("Postgres", "ConvoyPostgres"),
            ]),
        tests("ExampleTests", of: ["Convoy", "ExampleReadme", "ExampleSync", "ExampleService", "ExamplePort"]),
    ]
)

// The helpers of the tests are for the benchmarks, too, which are a package of their own beside this one. Who depends on
// Convoy does not see them.
if !Context.packageDirectory.contains("/checkouts/") {
    package.products.append(.library(name: "ConvoyTestSupport", targets: ["ConvoyTestSupport"]))
}

// The test targets to build, separated by commas: who works on one module need not build the tests of all (`Tests/quick`).
if let chosen = Context.environment["CONVOY_TESTS"]?.split(separator: ",").map(String.init) {
    package.targets.removeAll { $0.isTest && !chosen.contains($0.name) }
}
